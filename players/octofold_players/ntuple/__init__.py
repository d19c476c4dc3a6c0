"""N-tuple networks: their tables, their player and its search, and the compact tables of published models."""
