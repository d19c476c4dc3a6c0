"""The folded graph: the parts that all networks share, and their assembly."""
