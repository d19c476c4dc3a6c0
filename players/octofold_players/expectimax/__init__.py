"""Expectimax with a heuristic on 64-bit boards."""
