"""The folded graph: the pieces that every network shares, and their assembly."""
