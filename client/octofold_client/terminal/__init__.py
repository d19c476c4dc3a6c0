"""The terminal: progress displays (also for notebooks), tables, the keyboard, and games played by hand."""
