"""The support desk: rows and store at the bottom, capabilities above them, the engine on top."""
