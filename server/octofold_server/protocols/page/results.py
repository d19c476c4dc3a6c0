"""The results of evaluations, for the page: which there are, and the files that grow while games are played.

`octofold evaluate` writes them; docs/results.md describes them. Nothing else in the folder is served.
"""

from __future__ import annotations

import os
import re
import stat
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from octofold_proto.errors import InvalidRequest

CONDITIONS = "conditions.json"
GAMES = "games.replay"
FILES = (CONDITIONS, GAMES, "live.json")
"""The files of a result that the page reads."""

MAX_BYTES = 4 << 20
"""Most bytes of a file in one reply. The page asks again for the rest."""

MAX_RESULTS = 200
"""Most results in a list: the newest."""

MAX_CONDITIONS_BYTES = 65_536

_NAME = re.compile(r"[\w.,=-]{1,200}", re.ASCII)


class Piece(NamedTuple):
    """A part of a file, and the age of the file, because the clock of a browser may differ."""

    content: bytes
    age_seconds: float


class Results:
    """Reads the results below a folder, which need not exist.

    Args:
        folder: the folder; None for no results.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def list(self) -> list[dict[str, Any]]:
        """The results that changed last: name, conditions, and the seconds since the last game finished."""
        if self._folder is None:
            return []
        try:
            names = [each.name for each in self._folder.iterdir() if _is_name(each.name)]
        except OSError:
            return []
        ages = [(age, name) for name in names if (age := self._age(name)) is not None]
        described = (self._described(name, age) for age, name in sorted(ages)[:MAX_RESULTS])
        return [each for each in described if each is not None]

    def piece(self, result: str, file: str, start: int) -> Piece | None:
        """Read a file of a result from byte `start`; nothing of one that is not there yet.

        Returns:
            The piece; None if there is no such result.

        Raises:
            InvalidRequest: the name of the result or of the file is not one of a result.
        """
        if not _is_name(result) or file not in FILES:
            raise InvalidRequest(f"results have names and the files {', '.join(FILES)}")
        if self._folder is None or _read(self._folder / result / CONDITIONS, 0, 1) is None:
            return None
        return _read(self._folder / result / file, start, MAX_BYTES) or Piece(b"", 0.0)

    def _age(self, name: str) -> float | None:
        assert self._folder is not None
        try:
            return max(0.0, time.time() - (self._folder / name / GAMES).stat().st_mtime)
        except OSError:
            return None

    def _described(self, name: str, age: float) -> dict[str, Any] | None:
        assert self._folder is not None
        text = _read(self._folder / name / CONDITIONS, 0, MAX_CONDITIONS_BYTES)
        try:
            conditions = msgspec.json.decode(text.content if text else b"", type=dict[str, Any])
        except ValueError:
            return None
        return {"name": name, "conditions": conditions, "age_seconds": round(age, 1)}


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and not text.startswith(".")


def _read(path: Path, start: int, most_bytes: int) -> Piece | None:
    """A part of a regular file; a link or a pipe is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        file.seek(start)
        age = max(0.0, time.time() - status.st_mtime)
        return Piece(file.read(most_bytes), age)
