"""The games and boards that are learned from, and games that show how strong a network is."""
