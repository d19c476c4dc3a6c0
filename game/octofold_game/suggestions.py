"""What a word that is not known was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Such as "; did you mean games?", to be put behind what is wrong; empty if nothing is close."""
    close = get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
