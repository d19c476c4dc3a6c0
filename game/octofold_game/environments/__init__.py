"""2048 as gymnasium environments."""
