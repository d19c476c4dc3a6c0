"""Minimax: spawns as an opponent."""
