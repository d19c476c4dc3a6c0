"""The results of evaluations, for the page: which there are, and the files that grow while games are played.

`octofold evaluate` writes them; docs/results.md describes them. Nothing else in the folder is served.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from octofold_proto.errors import InvalidRequest

CONDITIONS = "conditions.json"
FILES = (CONDITIONS, "games.replay", "live.json")
"""The files of a result that the page reads."""

MAX_BYTES = 4 << 20
"""Most bytes of a file in one reply. The page asks again for the rest."""

MAX_RESULTS = 200
"""Most results in a list: the newest."""

MAX_CONDITIONS_BYTES = 65_536

_NAME = re.compile(r"[\w.,=-]{1,200}", re.ASCII)


class Piece(NamedTuple):
    """A part of a file, and the size of all of it now."""

    content: bytes
    size: int


class Results:
    """Reads the results below a folder, which need not exist.

    Args:
        folder: the folder; None for no results.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def list(self) -> list[dict[str, Any]]:
        """The newest results: name, conditions, bytes of games, and time of the last change in seconds."""
        found = sorted(self._described(), key=lambda each: -each["changed"])
        return found[:MAX_RESULTS]

    def piece(self, result: str, file: str, start: int) -> Piece | None:
        """Read a file of a result from byte `start`; nothing of one that is not there yet.

        Returns:
            The piece; None if there is no such result.

        Raises:
            InvalidRequest: the name of the result or of the file is not one of a result.
        """
        if not _NAME.fullmatch(result) or result.startswith(".") or file not in FILES:
            raise InvalidRequest(f"results have names and the files {', '.join(FILES)}")
        if self._folder is None or _read(self._folder / result / CONDITIONS, 0, 1) is None:
            return None
        return _read(self._folder / result / file, start, MAX_BYTES) or Piece(b"", 0)

    def _described(self) -> Iterator[dict[str, Any]]:
        if self._folder is None:
            return
        try:
            names = [each.name for each in self._folder.iterdir()]
        except OSError:
            return
        for name in names:
            if not _NAME.fullmatch(name) or name.startswith("."):
                continue
            folder = self._folder / name
            text = _read(folder / CONDITIONS, 0, MAX_CONDITIONS_BYTES)
            if text is None:
                continue
            try:
                conditions = msgspec.json.decode(text.content, type=dict[str, Any])
                games = (folder / "games.replay").stat()
            except (ValueError, OSError):
                continue
            yield {
                "name": name,
                "conditions": conditions,
                "bytes": games.st_size,
                "changed": games.st_mtime,
                "live": (folder / "live.json").exists(),
            }


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
        return Piece(file.read(most_bytes), status.st_size)
