"""Evaluations: play games, keep them, and compute figures with intervals."""
