"""The folded graph: the pieces that all networks share, and their assembly."""
