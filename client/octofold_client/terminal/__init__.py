"""The terminal: progress, also in notebooks, tables, the replay viewer, games by hand, keys and Ctrl-C."""
