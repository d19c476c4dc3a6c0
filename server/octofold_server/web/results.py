"""The results of evaluations, for the page: lists them, and reads their files, which grow during games.

`octofold evaluate` writes them; docs/results.md describes them. Nothing else in the folder is served.
"""

from __future__ import annotations

import heapq
import os
import re
import stat
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from octofold_game.contract.results import CONDITIONS_FILE, GAMES_FILE, LIVE_FILE, RESULT_FILE
from octofold_proto.errors import InvalidRequest

from octofold_server.web.tallies import Tally, counted

FILES = (CONDITIONS_FILE, GAMES_FILE, LIVE_FILE)
"""The files of a result that the page reads."""

MAX_BYTES = 4 << 20
"""Most bytes of a file in one reply. The page asks again for the rest."""

MAX_RESULTS = 200
"""Most results in a list: the newest."""

MAX_DEPTH, MAX_FOLDERS, MAX_ENTRIES = 4, 5_000, 20_000
"""How deep results may lie, 1 for the folder itself; how many folders a search reads at most, and how many
entries of each."""

MAX_CONDITIONS_BYTES = 65_536
MAX_LIVE_BYTES = 1 << 20

_NAME = re.compile(r"[\w.,=-]{1,200}", re.ASCII)


class Piece(NamedTuple):
    """A part of a file, and the age of the file, because the clock of a browser may differ."""

    content: bytes
    age_seconds: float


class Results:
    """Reads the results below a folder, which need not exist.

    A result is named by its path below the folder, such as `monday/evaluate-swift`. Links are not followed.

    Args:
        folder: the folder; None for no results.
        max_folders: how many folders a search for results reads at most.
    """

    def __init__(self, folder: Path | None, max_folders: int = MAX_FOLDERS) -> None:
        self._folder = folder
        self._max_folders = max_folders
        self._tallies: dict[str, Tally] = {}

    def list(self) -> list[dict[str, Any]]:
        """The results that changed last: name, conditions, games and their scores, age in seconds."""
        if self._folder is None:
            return []
        now = time.time()
        newest = heapq.nlargest(MAX_RESULTS, _found(self._folder, self._max_folders))
        self._tallies = {name: self._tally(name) for _, name in newest}
        described = (self._described(name, max(0.0, now - changed)) for changed, name in newest)
        return [each for each in described if each is not None]

    def piece(self, result: str, file: str, start: int) -> Piece | None:
        """Read a file of a result from byte `start`; nothing of one that is not there yet.

        Returns:
            The piece; None if there is no such result.

        Raises:
            InvalidRequest: the name of the result or of the file is not one of a result.
        """
        parts = result.split("/")
        if len(parts) > MAX_DEPTH or not all(map(_is_name, parts)) or file not in FILES:
            raise InvalidRequest(f"results have names and the files {', '.join(FILES)}")
        if self._folder is None or _read(self._folder, f"{result}/{CONDITIONS_FILE}", 0, 1) is None:
            return None
        return _read(self._folder, f"{result}/{file}", start, MAX_BYTES) or Piece(b"", 0.0)

    def _described(self, name: str, age: float) -> dict[str, Any] | None:
        assert self._folder is not None
        text = _read(self._folder, f"{name}/{CONDITIONS_FILE}", 0, MAX_CONDITIONS_BYTES)
        try:
            conditions = msgspec.json.decode(text.content if text else b"", type=dict[str, Any])
        except ValueError:
            return None
        tally = self._tallies[name]
        return {
            "name": name,
            "conditions": conditions,
            "age_seconds": round(age, 1),
            "games": tally.games,
            "planned": self._planned(name),
            "has_ended": _read(self._folder, f"{name}/{RESULT_FILE}", 0, 1) is not None,
            "average": tally.mean if tally.games else None,
            "deviation": tally.deviation,
        }

    def _planned(self, name: str) -> int | None:
        """The games of an evaluation that writes how it goes; None for others."""
        assert self._folder is not None
        live = _read(self._folder, f"{name}/{LIVE_FILE}", 0, MAX_LIVE_BYTES)
        try:
            found = msgspec.json.decode(live.content if live else b"", type=dict[str, Any]).get("games")
        except ValueError:
            return None
        return found if isinstance(found, int) else None

    def _tally(self, name: str) -> Tally:
        assert self._folder is not None
        tally = self._tallies.get(name, Tally())
        try:
            with _opened_file(self._folder, f"{name}/{GAMES_FILE}") as descriptor:
                return counted(descriptor, tally)
        except OSError:  # it has gone meanwhile
            return Tally()


def _found(root: Path, max_folders: int) -> Iterator[tuple[float, str]]:
    """The results below a folder, the upper ones first: when their games changed, and their names.

    A result holds no others.
    """
    waiting = deque([(0, "")])
    for _ in range(max_folders):
        if not waiting:
            return
        depth, name = waiting.popleft()
        changed, below = _inside(root / name)
        if changed is not None and name:
            yield changed, name
        elif depth < MAX_DEPTH:
            below = below[: max_folders - len(waiting)]
            waiting.extend((depth + 1, f"{name}/{each}" if name else each) for each in below)


def _inside(folder: Path) -> tuple[float | None, list[str]]:
    """When the games in a folder changed, or None if it has none, and the names of the folders in it."""
    changed, below = None, []
    try:
        with os.scandir(folder) as entries:
            for entry in islice(entries, MAX_ENTRIES):
                if entry.name == GAMES_FILE and entry.is_file(follow_symlinks=False):
                    changed = entry.stat(follow_symlinks=False).st_mtime
                elif _is_name(entry.name) and entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
    except OSError:  # it has gone meanwhile, or may not be read
        return None, []
    return changed, sorted(below)


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and not text.startswith(".")


def _read(root: Path, path: str, start: int, most_bytes: int) -> Piece | None:
    """A part of the file `path` below a folder; None if it is not a regular file, or lies behind a link."""
    try:
        with _opened_file(root, path) as descriptor:
            status = os.fstat(descriptor)
            age = max(0.0, time.time() - status.st_mtime)
            if start >= status.st_size:  # no file system can seek to every number
                return Piece(b"", age)
            return Piece(os.pread(descriptor, most_bytes, start), age)
    except OSError:
        return None


@contextmanager
def _opened_file(root: Path, path: str) -> Iterator[int]:
    """The descriptor of the regular file `path` below a folder.

    Raises:
        OSError: it cannot be opened, is not a regular file, or lies behind a link.
    """
    *folders, name = path.split("/")
    with _opened(root, folders) as folder:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened(root: Path, folders: list[str]) -> Iterator[int]:
    """A folder below `root`, each folder on the way opened in the one before: no link can lead out."""
    with ExitStack() as stack:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, folder)
        for name in folders:
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            stack.callback(os.close, folder)
        yield folder
