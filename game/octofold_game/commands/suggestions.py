"""Suggests known words that are close to an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

_CLOSE = 0.65
"""How similar a word is at least, of 1: "nope" should not be "ntuple"."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion to append to an error, such as "; did you mean games?"; empty without a close match."""
    close = get_close_matches(word, list(known), 1, _CLOSE)
    return f"; did you mean {close[0]}?" if close else ""


def missing(path: Path) -> str:
    """A message that names the missing path, or its missing parent, with a suggestion."""
    while not path.parent.exists():
        path = path.parent
    return f"there is no {path}{similar(path)}"


def similar(path: Path) -> str:
    """A suggestion from the folder of a missing path, such as "; did you mean runs/net.pt?"."""
    names: list[str] = []
    with suppress(OSError):  # a folder that must not be read or is not there, or a file
        names = [each.name for each in path.parent.iterdir()]
    close = get_close_matches(path.name, names, 1)
    return f"; did you mean {path.parent / close[0]}?" if close else ""
