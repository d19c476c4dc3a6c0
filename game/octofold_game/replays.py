"""Reads and writes replay files. Finished games are appended to a file one by one.

The format is little-endian: the magic `OctoGame` and a version (u32), then records. A record is a head, the
CRC-32 of the head, the moves at one byte each (see `Episode.moves`) and the CRC-32 of the moves. The two
checksums distinguish a record that was cut short from a damaged one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import FileIO
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import numpy as np

from octofold_game.episodes import Episode
from octofold_game.referee import ReplayError, verify
from octofold_game.rules import LARGEST_EXPONENT

_HEADER = struct.Struct("<8sI")
_MAGIC = b"OctoGame"
_VERSION = 1
HEAD = struct.Struct("<IQQQB16s16s")
"""The head of a record: number of moves, game, seed, score, largest exponent, start and final board."""
CHECKSUM = struct.Struct("<I")
"""The format of a checksum, which follows the head and the moves."""
_READ_AT_ONCE = 1 << 20  # bytes
_CHECKED_AT_ONCE = 1 << 16  # moves
_MOST = 2**63 - 1  # maximum index and score of a game, as in `Episodes`

FILE_HEADER = _HEADER.pack(_MAGIC, _VERSION)
"""The first bytes of every replay file."""


class ReplayInUse(ReplayError):
    """An error about a replay file that another writer has opened."""


class _TornReplayError(ReplayError):
    """An error about a file whose end is missing or all zeros. The intact part ends at byte `at`.

    The writer was interrupted. After a power cut, a file may have its full size, but not its content.
    """

    def __init__(self, message: str, at: int, game: int | None = None) -> None:
        super().__init__(message, game, at)
        self.at = at


class ReplayWriter:
    """A context manager that appends games to a replay file, and creates the file if it is missing.

    Only one writer can open a file at a time. It holds a lock on the file until it closes the file or the
    program ends. Opening the file removes an unfinished record of an earlier writer and zeros left by a power
    cut; `recovered` is the number of removed bytes.
    """

    def __init__(self, path: Path) -> None:
        """Open the file for appending.

        Raises:
            ReplayInUse: another writer has opened the file.
            ReplayError: the file is damaged or not a replay file, or its file system has no locks.
            OSError: the file cannot be opened or written.
        """
        self._file = path.open("ab", buffering=0)
        try:
            _lock(self._file, path)
            if not os.path.samestat(os.fstat(self._file.fileno()), path.stat()):
                raise BlockingIOError  # another writer has just replaced the file
            # Recover only with the lock: an incomplete record may belong to a writer at work.
            self.recovered = recover(path)
            if not self._file.seek(0, os.SEEK_END):
                self._write(FILE_HEADER)
        except BaseException as error:
            self._file.close()
            if isinstance(error, BlockingIOError):
                raise ReplayInUse(f"{path}: another program is writing to this file") from None
            raise

    def append(self, episode: Episode) -> None:
        """Write one game, unbuffered.

        Raises:
            OSError: the game could not be written; the file is as it was before.
        """
        self._write(record_of(episode))

    def sync(self) -> None:
        """Wait until all games are on the disk.

        Raises:
            OSError: the games cannot be written to the disk.
        """
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file and release its lock."""
        self._file.close()

    def __enter__(self) -> ReplayWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, record: bytes) -> None:
        start = self._file.seek(0, os.SEEK_END)  # because a failed write may have moved the position
        left = memoryview(record)
        try:
            while left:
                left = left[self._file.write(left) :]
        except BaseException:
            self._file.truncate(start)
            raise


def _lock(file: BinaryIO | FileIO, path: Path) -> None:
    """Lock a file for one writer.

    Raises:
        BlockingIOError: another writer has locked it.
        ReplayError: the file system does not support locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK):
            raise
        raise ReplayError(
            f"{path}: this file system does not support locks, so two programs could write one file (flock: "
            f"{error.strerror}); choose a folder on another file system, or mount Lustre with -o flock"
        ) from None


def record_of(episode: Episode) -> bytes:
    """Encode a game as a record. A replay file is `FILE_HEADER`, followed by records."""
    head = HEAD.pack(
        len(episode),
        episode.game,
        episode.seed,
        episode.score,
        episode.largest_exponent,
        episode.start.tobytes(),
        episode.final_board.tobytes(),
    )
    return b"".join([head, CHECKSUM.pack(crc32(head)), episode.moves, CHECKSUM.pack(crc32(episode.moves))])


def read_replays(path: Path) -> Iterator[Episode]:
    """Yield the games of a replay file in the order in which they were written.

    Raises:
        ReplayError: the file has another format, or a record is damaged or incomplete.
        OSError: the file cannot be read.
    """
    for _, episode in _records(path):
        yield episode


Records = list[tuple[int, Episode]]
"""Some games of a replay file, each with the byte offset of its record."""
Checked = tuple[Records, list[ReplayError | None]]
"""Some games of a replay file, and for each game the error that the referee found, or None."""
Spread = Callable[[Callable[[Records], Checked], Iterator[Records]], Iterable[Checked]]
"""A function like `map`, which may run the calls in other processes."""


def check_replays(
    path: Path, *, may_go_on: bool = False, spread: Spread = map
) -> Iterator[tuple[Episode, ReplayError | None]]:
    """Yield every game of a replay file, with the error that the referee found in it, or None.

    The error names the game and the byte offset of its record. Later games are still checked.

    Args:
        path: the file.
        may_go_on: whether to accept games that are not over.
        spread: a function like `map`, which may check games in other processes.

    Raises:
        ReplayError: the file has another format, or a record is damaged or incomplete.
        OSError: the file cannot be read.
    """
    seen: set[tuple[int, int]] = set()
    damage: list[ReplayError] = []  # the error that ends the reading; the games before it are checked first
    for games, errors in spread(partial(_check, may_go_on), _in_batches(path, damage)):
        for (offset, episode), error in zip(games, errors, strict=True):
            found = error
            if (episode.seed, episode.game) in seen:
                found = ReplayError(f"game {episode.game} of seed {episode.seed} occurs twice", episode.game)
            seen.add((episode.seed, episode.game))
            if found is not None:
                found = ReplayError(f"{path}: byte {offset}: {found}", found.game, offset)
            yield episode, found
    if damage:
        raise damage[0]


def _in_batches(path: Path, damage: list[ReplayError]) -> Iterator[Records]:
    """Yield games in batches of about `_CHECKED_AT_ONCE` moves. Append an error of the file to `damage`."""
    batch: Records = []
    moves = 0
    try:
        for offset, episode in _records(path):
            batch.append((offset, episode))
            moves += len(episode)
            if moves >= _CHECKED_AT_ONCE:
                yield batch
                batch, moves = [], 0
    except ReplayError as error:
        damage.append(error)
    if batch:
        yield batch


def _check(may_go_on: bool, games: Records) -> Checked:
    errors: list[ReplayError | None] = []
    for _, episode in games:
        try:
            verify(episode, may_go_on=may_go_on)
            errors.append(None)
        except ReplayError as error:
            errors.append(error)
    return games, errors


def _records(path: Path) -> Iterator[tuple[int, Episode]]:
    """Yield the games of a replay file, each with the byte offset of its record."""
    with path.open("rb") as file:
        _read_header(file, path)
        game = None
        offset = file.tell()
        while (episode := _read_record(file, path, game)) is not None:
            yield offset, episode
            game = episode.game
            offset = file.tell()


def recover(path: Path) -> int:
    """Remove an unfinished record, or zeros that a power cut left, from the end of a replay file.

    Returns:
        The number of bytes that were removed; 0 if the file is complete or missing.

    Raises:
        ReplayError: the file is damaged in another way or not a replay file; it is left unchanged.
        OSError: the file cannot be read or written.
    """
    if not path.exists():
        return 0
    try:
        for _ in read_replays(path):
            pass
    except _TornReplayError as torn:
        with path.open("r+b") as file:
            size = file.seek(0, 2)
            file.truncate(torn.at)
        return size - torn.at
    return 0


def _read_header(file: BinaryIO, path: Path) -> None:
    header = file.read(_HEADER.size)
    if header == FILE_HEADER:
        return
    if FILE_HEADER.startswith(header):
        raise _TornReplayError(f"{path}: ends within the file header", 0)
    if header.startswith(_MAGIC):
        version = int.from_bytes(header[len(_MAGIC) :], "little")
        raise ReplayError(f"{path}: the replay format must be {_VERSION}, got {version}", offset=0)
    if FILE_HEADER.startswith(header.rstrip(b"\0")) and _only_zeros_from(file, 0, _HEADER.size):
        raise _TornReplayError(f"{path}: only zeros within the file header, as after a power cut", 0)
    raise ReplayError(f"{path}: not a replay file", offset=0)


def _read_record(file: BinaryIO, path: Path, last_game: int | None) -> Episode | None:
    """Read the next game; None at the end of the file. Errors name the game before it, `last_game`."""
    offset = file.tell()
    head = file.read(HEAD.size + CHECKSUM.size)
    if not head:
        return None
    follows = "the first game" if last_game is None else f"the game after game {last_game}"
    zeros = f"zeros replace {follows} or its end, as after a power cut"
    if len(head) < HEAD.size + CHECKSUM.size:
        raise _TornReplayError(f"{path}: byte {offset}: the file ends within {follows}", offset)
    if not _intact(head):
        if _only_zeros_from(file, offset, offset + len(head)):
            raise _TornReplayError(f"{path}: byte {offset}: {zeros}", offset)
        raise ReplayError(f"{path}: byte {offset}: the record of {follows} is damaged", offset=offset)
    length, game, seed, score, largest, start, final = HEAD.unpack(head[: HEAD.size])
    if max(game, score) > _MOST or max(*start, *final) > LARGEST_EXPONENT + 1:
        raise ReplayError(
            f"{path}: byte {offset}: {follows} has numbers that are out of range", offset=offset
        )
    moves = file.read(length + CHECKSUM.size)
    if len(moves) < length + CHECKSUM.size:
        raise _TornReplayError(f"{path}: byte {offset}: the file ends within game {game}", offset, game)
    if not _intact(moves):
        if _only_zeros_from(file, offset, file.tell()):
            raise _TornReplayError(f"{path}: byte {offset}: {zeros}", offset, game)
        raise ReplayError(f"{path}: byte {offset}: the moves of game {game} are damaged", game, offset)
    return Episode(
        game=game,
        seed=seed,
        largest_exponent=largest,
        start=np.frombuffer(start, dtype=np.uint8),
        moves=moves[:length],
        score=score,
        final_board=np.frombuffer(final, dtype=np.uint8),
    )


def _only_zeros_from(file: BinaryIO, start: int, end: int) -> bool:
    """Return whether the file ends with zeros that begin at a byte from `start` to `end`."""
    file.seek(start)
    last, at = start - 1, start  # `last` is the position of the last byte that is not zero
    while block := file.read(_READ_AT_ONCE):
        if content := block.rstrip(b"\0"):
            last = at + len(content) - 1
            if last >= end:
                return False
        at += len(block)
    return at > last + 1


def _intact(record: bytes) -> bool:
    content, checksum = record[: -CHECKSUM.size], record[-CHECKSUM.size :]
    return CHECKSUM.pack(crc32(content)) == checksum


class ReplayOrder:
    """The positions of the games in a replay file; takes 16 bytes of memory per game."""

    def __init__(self) -> None:
        self._games = array("Q")
        self._ends = array("Q", [len(FILE_HEADER)])

    def add(self, episode: Episode) -> None:
        """Add the next game of the file."""
        self._games.append(episode.game)
        self._ends.append(self._ends[-1] + HEAD.size + len(episode) + 2 * CHECKSUM.size)

    @property
    def is_in_order(self) -> bool:
        """Whether the file lists its games in ascending order."""
        games = np.frombuffer(self._games, np.uint64)
        return bool((games[1:] > games[:-1]).all())

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Yield the byte ranges that, copied in this order, make a file with its games in ascending order."""
        if self.is_in_order:
            yield self._ends[0], self._ends[-1]
            return
        for row in np.argsort(np.frombuffer(self._games, np.uint64), kind="stable").tolist():
            yield self._ends[row], self._ends[row + 1]


def write_in_order(
    files: Sequence[tuple[Path, ReplayOrder]], to: Path, check: Callable[[], None] = lambda: None
) -> None:
    """Copy the games of replay files to a new file, in the order of the files. Sort the games of each file.

    Args:
        files: replay files, each with the positions of its games.
        to: the new file; it is complete when the function returns.
        check: called often; an exception from it ends the copy.

    Raises:
        OSError: a file cannot be read or written.
    """
    with to.open("wb", buffering=_READ_AT_ONCE) as target:
        target.write(FILE_HEADER)
        for path, order in files:
            with path.open("rb") as source:
                for start, end in order.pieces():
                    source.seek(start)
                    while start < end:
                        check()
                        piece = source.read(min(_READ_AT_ONCE, end - start))
                        if not piece:
                            raise OSError(f"{path} has become shorter while it was read")
                        target.write(piece)
                        start += len(piece)
