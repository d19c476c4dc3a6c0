"""Suggests known words that are close to an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

_CLOSE = 0.65
"""Minimum similarity of a suggested word, from 0 to 1. For example, "nope" must not suggest "ntuple"."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a suggestion to append to an error, such as "; did you mean games?"; empty without a match."""
    close = get_close_matches(word, list(known), 1, _CLOSE)
    return f"; did you mean {close[0]}?" if close else ""


def missing(path: Path) -> str:
    """Return an error message that names the first missing part of a path, with a suggestion."""
    while not path.parent.exists():
        path = path.parent
    return f"there is no {path}{similar(path)}"


def similar(path: Path) -> str:
    """Return a suggestion of a similar path, such as "; did you mean runs/net.pt?"; empty without a match."""
    names: list[str] = []
    with suppress(OSError):  # the folder is unreadable or missing, or is a file
        names = [each.name for each in path.parent.iterdir()]
    close = get_close_matches(path.name, names, 1)
    return f"; did you mean {path.parent / close[0]}?" if close else ""
