"""Checks of a graph before it is published, and choices that games make for an export."""
