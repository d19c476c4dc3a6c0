"""The machine below: files and processors."""
