"""Evaluations: playing the games, keeping them, and the figures with their intervals."""
