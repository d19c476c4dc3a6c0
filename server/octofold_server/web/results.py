"""Lists the results of evaluations for the page, and reads their files, which may still grow.

`octofold evaluate` writes the results, and docs/results.md describes them. Other files in the folder are not
served.
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
"""The files of a result that the page may read."""

STATE = "state.json"
"""The file name with which the page requests the list entry of one result. No real file has this name."""

MAX_BYTES = 4 << 20
"""Maximum bytes of a file in one reply. The page requests the rest with further requests."""

MAX_RESULTS = 200
"""Maximum number of results in the list. Older results are left out."""

MAX_DEPTH, MAX_FOLDERS, MAX_ENTRIES = 4, 5_000, 20_000
"""Limits of the search for results: levels of folders, folders in all, and entries read from each folder."""

MAX_CONDITIONS_BYTES = 65_536

MAX_GAMES = 20_000
"""Maximum number of games that one call of `updated_tally` counts. The next call continues."""


class Piece(NamedTuple):
    """A part of a file, and the age of the file."""

    content: bytes
    age_seconds: float
    """Seconds since the file changed. A time would be of no use, because the browser's clock may differ."""


@dataclass
class Tally:
    """The number and the scores of the finished games in a replay file, which may still grow."""

    file: tuple[int, int] = (0, 0)
    """Device and inode of the file. They change when an evaluation ends and replaces the file."""
    planned: range | None = None
    """The indices of the planned games, which are the games to count; None for all."""
    position: int = len(FILE_HEADER)
    """The position in the file after the counted games."""
    last: int = -1
    """The largest index of a counted game; -1 if there is none."""
    games: int = 0
    """The number of counted games."""
    mean: float = 0.0
    """The mean of the scores."""
    squares: float = 0.0
    """The sum of the squared distances of the scores from their mean."""

    def add(self, game: int, score: int) -> None:
        """Count a game if it is planned, and update the mean and `squares` by Welford's method."""
        if self.planned is not None and game not in self.planned:
            return
        self.games += 1
        self.last = max(self.last, game)
        before = self.mean
        self.mean += (score - before) / self.games
        self.squares += (score - before) * (score - self.mean)

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the scores; None for fewer than two games."""
        return (self.squares / (self.games - 1)) ** 0.5 if self.games > 1 else None


def updated_tally(descriptor: int, tally: Tally, planned: range | None = None) -> Tally:
    """Return the tally with the games that were added to a replay file since the tally was made.

    Header and checksums are not checked. The page reports a damaged file when a user opens the result.

    Args:
        descriptor: the descriptor of the file.
        tally: the tally so far. If it belongs to another file or to other `planned`, counting starts again.
        planned: the indices of the games to count; None for all.
    """
    status = os.fstat(descriptor)
    file = (status.st_dev, status.st_ino)
    if tally.file != file or tally.position > status.st_size or tally.planned != planned:
        tally = Tally(file, planned)
    for _ in range(MAX_GAMES):
        head = os.pread(descriptor, HEAD.size, tally.position)
        if len(head) < HEAD.size:
            break
        moves, game, _, score, *_ = HEAD.unpack(head)
        end = tally.position + HEAD.size + CHECKSUM.size + moves + CHECKSUM.size
        if end > status.st_size:
            break
        tally.add(game, score)
        tally.position = end
    return tally


class Results:
    """Reads the results below a folder, which need not exist.

    The name of a result is its path below the folder, such as `monday/evaluate-swift`. No link is followed.

    Args:
        folder: the folder; None for no results.
        max_folders: maximum number of folders that a search for results reads.
    """

    def __init__(self, folder: Path | None, max_folders: int = MAX_FOLDERS) -> None:
        self._folder = folder
        self._max_folders = max_folders
        self._tallies: dict[str, Tally] = {}

    def list(self) -> list[dict[str, Any]]:
        """Return the newest results, each as a JSON object.

        An object has name, conditions, seconds since the last game was added, and numbers of finished and
        planned games. `average`, `deviation` and `without_luck` are None if no game is finished or games are
        missing (`unfinished` gives the reason), `deviation` also if there is only one game, and
        `without_luck` if the result file does not contain it.
        """
        if self._folder is None:
            return []
        now = time.time()
        newest = heapq.nlargest(MAX_RESULTS, _find_results(self._folder, self._max_folders))
        self._tallies = {name: self._tallies.get(name, Tally()) for _, name in newest}
        described = (self._described(name, max(0.0, now - changed)) for changed, name in newest)
        return [result for result in described if result is not None]

    def piece(self, result: str, file: str, start: int) -> Piece | None:
        """Read a file of a result from byte `start`.

        Returns:
            The piece, which is empty if the file does not exist yet; None if the result does not exist.

        Raises:
            InvalidRequest: a result cannot have this name, or cannot have this file.
        """
        parts = result.split("/")
        if len(parts) > MAX_DEPTH or not all(map(_is_visible, parts)) or file not in (*FILES, STATE):
            raise InvalidRequest(
                f"the address must be /page/results/RESULT/FILE; FILE is one of {', '.join((*FILES, STATE))}"
            )
        if self._folder is None or _read(self._folder, f"{result}/{CONDITIONS_FILE}", 0, 1) is None:
            return None
        if file == STATE:
            described = self._described(result, 0.0)
            return None if described is None else Piece(msgspec.json.encode(described)[start:], 0.0)
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
        """Return `without_luck` from a result file; None if the file does not have it for `games` games.

        This reads only the first part of the file. The rest contains all scores, which may be millions.
        """
        assert self._folder is not None
        head = _read(self._folder, file, 0, MAX_CONDITIONS_BYTES)
        text = head.content.decode(errors="replace") if head else ""
        _, separator, rest = text.partition('\n  "without_luck": ')
        if not separator or f'\n  "games": {games},' not in text:
            return None
        try:
            adjusted = msgspec.convert(json.JSONDecoder().raw_decode(rest)[0], WithoutLuck | None)
        except ValueError:
            return None
        return None if adjusted is None else msgspec.to_builtins(adjusted)

    def _tally(self, file: str, planned: range | None, tally: Tally) -> Tally:
        """Return the `updated_tally` of a replay file; an empty tally if the file cannot be read."""
        assert self._folder is not None
        try:
            with _open_file(self._folder, file) as descriptor:
                return updated_tally(descriptor, tally, planned)
        except OSError:
            return Tally()


def _find_results(root: Path, max_folders: int) -> Iterator[tuple[float, str]]:
    """Yield each result below a folder: the time when its games last changed, and its name.

    Results at a higher level come first. The folder of a result is not searched for further results.
    """
    folders = [root]
    for folder in folders:  # the list grows during the loop
        name = folder.relative_to(root)
        changed = _change_time(folder / GAMES_FILE) if name.parts else None
        if changed is not None:
            yield changed, name.as_posix()
        elif len(name.parts) < MAX_DEPTH:
            folders += _folders_in(folder)[: max_folders - len(folders)]


def _change_time(file: Path) -> float | None:
    """Return the time when a file last changed, in Unix seconds; None if it is not a regular file."""
    try:
        status = os.lstat(file)
    except OSError:
        return None
    return status.st_mtime if stat.S_ISREG(status.st_mode) else None


def _folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted, without links; an empty list if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            first = [entry for entry in islice(entries, MAX_ENTRIES) if _is_visible(entry.name)]
            return sorted(Path(entry) for entry in first if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _is_visible(text: str) -> bool:
    """Return whether the page may show a folder with this name, which must be printable and not hidden."""
    return text.isprintable() and not text.startswith(".") and text != ""


def _read(root: Path, path: str, start: int, max_bytes: int) -> Piece | None:
    """Read a part of the file `path` below a folder; None if it is no regular file, or is behind a link."""
    try:
        with _open_file(root, path) as descriptor:
            status = os.fstat(descriptor)
            age = max(0.0, time.time() - status.st_mtime)
            if start >= status.st_size:  # file systems cannot seek to very large positions
                return Piece(b"", age)
            return Piece(os.pread(descriptor, max_bytes, start), age)
    except OSError:
        return None


@contextmanager
def _open_file(root: Path, path: str) -> Iterator[int]:
    """Open the regular file `path` below a folder during the block, and yield its descriptor.

    Raises:
        OSError: the file cannot be opened, is not a regular file, or is behind a link.
    """
    *folders, name = path.split("/")
    with _open_folder(root, folders) as folder:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _open_folder(root: Path, folders: list[str]) -> Iterator[int]:
    """Open a folder below `root` during the block, and yield its descriptor.

    Each folder on the way is opened relative to its parent and without following links, so no link can lead
    out of `root`.
    """
    with ExitStack() as stack:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, folder)
        for name in folders:
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            stack.callback(os.close, folder)
        yield folder
