"""A player that builds a formation by expectimax and then follows endgame tables."""
