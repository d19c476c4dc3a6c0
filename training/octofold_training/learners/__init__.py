"""The learning algorithms, one file each, and what only they use."""
