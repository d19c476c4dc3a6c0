"""Endgame tables: the large tiles do not move, and play in the cells around them is solved exactly."""
