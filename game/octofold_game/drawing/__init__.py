"""Draws boards and figures as pictures and text, with one palette for all programs."""
