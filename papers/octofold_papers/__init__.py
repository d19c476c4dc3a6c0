"""Rebuilds the players and networks of five publications. `papers/README.md` has their figures and ours."""
