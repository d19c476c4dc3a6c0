"""Games and boards to learn from, and games that measure a network's strength."""
