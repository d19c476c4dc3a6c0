"""Local players: they choose moves in this process, and some teach the networks that are served."""
