"""Expectimax into a formation, and endgame tables that play it."""
