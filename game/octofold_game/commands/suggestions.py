"""What a word that is not known was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

_CLOSE = 0.65
"""How similar a word is at least, of 1: "nope" should not be "ntuple"."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Such as "; did you mean games?", to be put behind what is wrong; empty if nothing is close."""
    close = get_close_matches(word, list(known), 1, _CLOSE)
    return f"; did you mean {close[0]}?" if close else ""


def missing(path: Path) -> str:
    """Which path is not there, or which folder above it, and what was probably meant."""
    while not path.parent.exists():
        path = path.parent
    return f"there is no {path}{similar(path)}"


def similar(path: Path) -> str:
    """Such as "; did you mean runs/net.pt?", of what lies beside a path that is not there."""
    names: list[str] = []
    with suppress(OSError):  # a folder that must not be read or is not there, or a file
        names = [each.name for each in path.parent.iterdir()]
    close = get_close_matches(path.name, names, 1)
    return f"; did you mean {path.parent / close[0]}?" if close else ""
