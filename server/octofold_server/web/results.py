"""The results of evaluations, for the page: lists them, and reads their files, which grow during games.

`octofold evaluate` writes them; docs/results.md describes them. Nothing else in the folder is served.
"""

from __future__ import annotations

import heapq
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from octofold_game.contract.results import (
    CONDITIONS_FILE,
    GAMES_FILE,
    LIVE_FILE,
    RESULT_FILE,
    UNFINISHED_FILE,
    Completeness,
    PlannedGames,
    WithoutLuck,
)
from octofold_game.replays import CHECKSUM, FILE_HEADER, HEAD
from octofold_proto.errors import InvalidRequest

FILES = (CONDITIONS_FILE, GAMES_FILE, LIVE_FILE)
"""The files of a result that the page reads."""

STATE = "state.json"
"""In place of a file: what the list says about one result."""

MAX_BYTES = 4 << 20
"""Most bytes of a file in one reply. The page asks again for the rest."""

MAX_RESULTS = 200
"""Most results in a list: the newest."""

MAX_DEPTH, MAX_FOLDERS, MAX_ENTRIES = 4, 5_000, 20_000
"""How deep results may lie, how many folders a search reads at most, and how many entries of each."""

MAX_CONDITIONS_BYTES = 65_536

MAX_GAMES = 20_000
"""Maximum heads per call. The next call continues."""


class Piece(NamedTuple):
    """A part of a file, and the age of the file, because the clock of a browser may differ."""

    content: bytes
    age_seconds: float


@dataclass
class Tally:
    """The finished games of a replay file that grows, and their scores; moves are not read."""

    file: tuple[int, int] = (0, 0)
    """Device and number of the file: an evaluation that ends puts another in its place."""
    planned: range | None = None
    """The indices of the games that count; None for all."""
    at: int = len(FILE_HEADER)
    last: int = -1
    """The largest index of a game that counts."""
    games: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """The sum of squared distances from the mean."""

    def add(self, game: int, score: int) -> None:
        """Count a game if it is planned (Welford's method)."""
        if self.planned is not None and game not in self.planned:
            return
        self.games += 1
        self.last = max(self.last, game)
        before = self.mean
        self.mean += (score - before) / self.games
        self.squares += (score - before) * (score - self.mean)

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the scores; None for fewer than two."""
        return (self.squares / (self.games - 1)) ** 0.5 if self.games > 1 else None


def counted(descriptor: int, tally: Tally, planned: range | None = None) -> Tally:
    """The tally with the planned games that the file has got since.

    A file that is no replay counts as one without games. The page reports it when it is opened.
    """
    status = os.fstat(descriptor)
    file = (status.st_dev, status.st_ino)
    if tally.file != file or tally.at > status.st_size or tally.planned != planned:
        tally = Tally(file, planned)
    for _ in range(MAX_GAMES):
        head = os.pread(descriptor, HEAD.size, tally.at)
        if len(head) < HEAD.size:
            break
        moves, game, _, score, *_ = HEAD.unpack(head)
        end = tally.at + HEAD.size + CHECKSUM.size + moves + CHECKSUM.size
        if end > status.st_size:
            break
        tally.add(game, score)
        tally.at = end
    return tally


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
        """The results that changed last: name, conditions, games and their scores, age in seconds.

        Without all planned games, `unfinished` says why there is neither an average nor a deviation.
        """
        if self._folder is None:
            return []
        now = time.time()
        newest = heapq.nlargest(MAX_RESULTS, _found(self._folder, self._max_folders))
        self._tallies = {name: self._tallies.get(name, Tally()) for _, name in newest}
        described = (self._described(name, max(0.0, now - changed)) for changed, name in newest)
        return [each for each in described if each is not None]

    def piece(self, result: str, file: str, start: int) -> Piece | None:
        """Read a file of a result from byte `start`; an empty piece if the file is not there yet.

        Returns:
            The piece; None if there is no such result.

        Raises:
            InvalidRequest: the name of the result or of the file is not one of a result.
        """
        parts = result.split("/")
        if len(parts) > MAX_DEPTH or not all(map(_is_name, parts)) or file not in (*FILES, STATE):
            raise InvalidRequest(f"results have names and the files {', '.join((*FILES, STATE))}")
        if self._folder is None or _read(self._folder, f"{result}/{CONDITIONS_FILE}", 0, 1) is None:
            return None
        if file == STATE:
            found = self._described(result, 0.0)
            return None if found is None else Piece(msgspec.json.encode(found)[start:], 0.0)
        return _read(self._folder, f"{result}/{file}", start, MAX_BYTES) or Piece(b"", 0.0)

    def _described(self, name: str, age: float) -> dict[str, Any] | None:
        assert self._folder is not None
        text = _read(self._folder, f"{name}/{CONDITIONS_FILE}", 0, MAX_CONDITIONS_BYTES)
        try:
            conditions = msgspec.json.decode(text.content if text else b"", type=dict[str, Any])
            planned = msgspec.convert(conditions, PlannedGames).range
        except ValueError:
            return None
        if "seed" in conditions:
            conditions["seed"] = str(conditions["seed"])  # a browser would round a large number
        tally = self._tally(f"{name}/{GAMES_FILE}", planned, self._tallies.get(name, Tally()))
        if name in self._tallies:
            self._tallies[name] = tally
        saved = self._tally(f"{name}/{UNFINISHED_FILE}", planned, Tally())
        completeness = Completeness.of(planned, tally.games, saved.games, max(tally.last, saved.last))
        has_figures = tally.games and not completeness.missing
        return {
            "name": name,
            "conditions": conditions,
            "age_seconds": round(age, 1),
            "games": tally.games,
            "planned": completeness.planned,
            "unfinished": completeness.reason or None,
            "average": tally.mean if has_figures else None,
            "deviation": tally.deviation if has_figures else None,
            "without_luck": self._without_luck(f"{name}/{RESULT_FILE}", tally.games) if has_figures else None,
        }

    def _without_luck(self, file: str, games: int) -> dict[str, Any] | None:
        """The average without luck in a result file, if it is known and the file describes `games` games.

        Only the first part of the file is read: behind it are the scores, which may be millions.
        """
        assert self._folder is not None
        head = _read(self._folder, file, 0, MAX_CONDITIONS_BYTES)
        text = head.content.decode(errors="replace") if head else ""
        _, found, rest = text.partition('\n  "without_luck": ')
        if not found or f'\n  "games": {games},' not in text:
            return None
        try:
            adjusted = msgspec.convert(json.JSONDecoder().raw_decode(rest)[0], WithoutLuck | None)
        except ValueError:
            return None
        return None if adjusted is None else msgspec.to_builtins(adjusted)

    def _tally(self, file: str, planned: range | None, tally: Tally) -> Tally:
        """The planned games in a replay file, which need not exist, on top of those counted so far."""
        assert self._folder is not None
        try:
            with _opened_file(self._folder, file) as descriptor:
                return counted(descriptor, tally, planned)
        except OSError:
            return Tally()


def _found(root: Path, max_folders: int) -> Iterator[tuple[float, str]]:
    """The results below a folder, the upper ones first: when their games changed, and their names.

    A result holds no others.
    """
    folders = [root]
    for folder in folders:  # which grows
        name = folder.relative_to(root)
        changed = _changed(folder / GAMES_FILE) if name.parts else None
        if changed is not None:
            yield changed, name.as_posix()
        elif len(name.parts) < MAX_DEPTH:
            folders += _folders_in(folder)[: max_folders - len(folders)]


def _changed(file: Path) -> float | None:
    """When a regular file changed; None if there is none."""
    try:
        status = os.lstat(file)
    except OSError:
        return None
    return status.st_mtime if stat.S_ISREG(status.st_mode) else None


def _folders_in(folder: Path) -> list[Path]:
    """The folders in a folder that are no links, sorted; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            first = [entry for entry in islice(entries, MAX_ENTRIES) if _is_name(entry.name)]
            return sorted(Path(entry) for entry in first if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _is_name(text: str) -> bool:
    """Whether a folder with this name is looked at: any text that is not hidden and that JSON can carry."""
    return text.isprintable() and not text.startswith(".") and text != ""


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
