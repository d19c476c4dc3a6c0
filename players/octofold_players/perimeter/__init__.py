"""A player that reaches a formation by expectimax and then follows endgame tables."""
