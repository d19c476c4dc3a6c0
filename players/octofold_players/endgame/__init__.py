"""Endgame tables: large tiles keep still, and the cells around them are solved exactly."""
