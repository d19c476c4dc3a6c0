"""The terminal: progress (also in notebooks), tables, games by hand, keys and Ctrl-C."""
