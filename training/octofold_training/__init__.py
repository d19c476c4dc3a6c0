"""Trainers of our own networks. ARCHITECTURE.md describes the rooms."""
