"""Endgame tables: six large tiles keep still, and the ten cells around them are solved exactly."""
