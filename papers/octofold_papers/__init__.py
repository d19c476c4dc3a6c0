"""Rebuilds the players and networks of five publications. `papers/README.md` compares all figures."""
