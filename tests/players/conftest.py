"""What the tests of several players share."""

from support.crowded_boards import boards

__all__ = ["boards"]
