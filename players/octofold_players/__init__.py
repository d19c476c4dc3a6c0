"""Local players: they choose moves without a service, and teach those that are served."""
