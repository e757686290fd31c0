"""What the demo shows: tables, a timeline, the verdict on the audit. Nothing here plays."""
