"""Analyzes finished games: how they ended, which moves cost most, and pictures."""
