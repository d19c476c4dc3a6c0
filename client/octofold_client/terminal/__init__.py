"""The terminal: progress (also in notebooks), tables, games by hand and keys."""
