"""The demo: recorded calls, played through the real engine, judged and drawn."""
