"""Quotes a caller's text in our messages, so that it neither fills the log nor looks like a part of it."""

from __future__ import annotations

MAX_QUOTED = 64
"""Maximum characters of a caller's text in an error message."""


def quoted(text: str) -> str:
    """A caller's text for an error message, escaped and shortened."""
    return repr(text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED] + "...")
