"""A caller's text inside a message of ours, where it must neither fill the log nor look like part of it.

Knows nothing about what the text names.
"""

from __future__ import annotations

__all__ = ["quoted"]

MAX_QUOTED = 64
"""Characters of a caller's own text that an error repeats."""


def quoted(text: str) -> str:
    """A caller's text for an error message: escaped, and cut where it would fill the log."""
    return repr(text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED] + "...")
