"""The terminal: progress, tables, the replay viewer, keys and Ctrl-C."""
