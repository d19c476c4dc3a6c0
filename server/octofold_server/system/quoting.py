"""Quotes text from callers in messages, so that it cannot fill the log or imitate log lines."""

from __future__ import annotations

MAX_QUOTED = 64
"""Maximum characters of a caller's text in an error message."""


def quoted(text: str) -> str:
    """Return a caller's text in quotes, escaped and shortened for an error message."""
    return repr(text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED] + "...")
