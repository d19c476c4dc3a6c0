"""Fixtures for the tests of several players."""

from support.crowded_boards import boards

__all__ = ["boards"]
