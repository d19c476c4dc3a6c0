"""The replay file, to which finished games are appended one by one.

Little-endian throughout: the magic `OctoGame` and a version (u32), then records. A record is a head, the
CRC-32 of the head, the moves at one byte each (see `Episode.moves`) and the CRC-32 of the moves. With two
checksums a record that was cut short is told from a damaged one. Knows nothing about who played.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO
from zlib import crc32

import numpy as np

from octofold_game.episodes import Episode
from octofold_game.referee import ReplayError, verify

__all__ = ["ReplayError", "ReplayInUse", "ReplayWriter", "check_replays", "read_replays", "recover", "verify"]

_HEADER = struct.Struct("<8sI")
_MAGIC = b"OctoGame"
_VERSION = 1
_HEAD = struct.Struct("<IQQQB16s16s")  # moves, game, seed, score, largest exponent, start, final board
_CHECKSUM = struct.Struct("<I")


class ReplayInUse(ReplayError):
    """Another writer has the replay file open."""


class _TornReplayError(ReplayError):
    """The file ends within the record at byte `at`: its writer was stopped."""

    def __init__(self, message: str, at: int, game: int | None = None) -> None:
        super().__init__(message, game, at)
        self.at = at


class ReplayWriter:
    """Appends games to a replay file, which is made where it is missing; a context manager.

    One writer at a time: the system's lock on the file is held until it is closed, or the program ends. A
    record that an earlier writer could not finish is cut off first.
    """

    def __init__(self, path: Path) -> None:
        """Raises `ReplayInUse`, `ReplayError` for a file that is damaged or no replay file, and `OSError`."""
        self._file = path.open("ab", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Only now: what looks torn may be the record that another writer is at.
            recover(path)
            if not self._file.seek(0, os.SEEK_END):
                self._write(_HEADER.pack(_MAGIC, _VERSION))
        except BaseException as error:
            self._file.close()
            if isinstance(error, BlockingIOError):
                raise ReplayInUse(f"{path}: another program is writing there") from None
            raise

    def append(self, episode: Episode) -> None:
        """Writes one game and hands it to the system. After an `OSError` the file is as it was before."""
        head = _HEAD.pack(
            len(episode),
            episode.game,
            episode.seed,
            episode.score,
            episode.largest_exponent,
            episode.start.tobytes(),
            episode.final_board.tobytes(),
        )
        self._write(
            b"".join([head, _CHECKSUM.pack(crc32(head)), episode.moves, _CHECKSUM.pack(crc32(episode.moves))])
        )

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> ReplayWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, record: bytes) -> None:
        start = self._file.tell()
        left = memoryview(record)
        try:
            while left:
                left = left[self._file.write(left) :]
        except BaseException:
            self._file.truncate(start)
            raise


def read_replays(path: Path) -> Iterator[Episode]:
    """The games of a replay file, in the order in which they were written.

    Raises `ReplayError` at the first record that is not as it was written, naming its game and byte offset,
    and `OSError` if the file cannot be read.
    """
    for _, episode in _records(path):
        yield episode


def check_replays(path: Path) -> Iterator[tuple[Episode, ReplayError | None]]:
    """Every game of a replay file and what is untrue about it: None where the referee confirms all of it.

    An untrue game names itself, its first byte and the move; the games behind it are still looked at. Raises
    as `read_replays` does where a record cannot be read at all.
    """
    seen: set[tuple[int, int]] = set()
    for offset, episode in _records(path):
        untrue = None
        try:
            if (episode.seed, episode.game) in seen:
                raise ReplayError(f"game {episode.game} of seed {episode.seed} is there twice", episode.game)
            seen.add((episode.seed, episode.game))
            verify(episode)
        except ReplayError as error:
            untrue = ReplayError(f"{path}: byte {offset}: {error}", error.game, offset)
        yield episode, untrue


def _records(path: Path) -> Iterator[tuple[int, Episode]]:
    """The games of a replay file, each with the first byte of its record."""
    with path.open("rb") as file:
        _read_header(file, path)
        game = None
        offset = file.tell()
        while (episode := _read_record(file, path, game)) is not None:
            yield offset, episode
            game = episode.game
            offset = file.tell()


def recover(path: Path) -> int:
    """Cuts off the record at the end of a replay file that its writer could not finish.

    Returns the number of bytes cut: 0 for a whole file or a missing one. Raises `ReplayError`, and leaves the
    file alone, where it is damaged in any other way, and `OSError`.
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
    expected = _HEADER.pack(_MAGIC, _VERSION)
    if header == expected:
        return
    if expected.startswith(header):
        raise _TornReplayError(f"{path}: ends within the file header", 0)
    if header.startswith(_MAGIC):
        version = int.from_bytes(header[len(_MAGIC) :], "little")
        raise ReplayError(f"{path}: replay format {version}, this program reads {_VERSION}", offset=0)
    raise ReplayError(f"{path}: not a replay file", offset=0)


def _read_record(file: BinaryIO, path: Path, last_game: int | None) -> Episode | None:
    """The next game, or None at the end of the file. `last_game` is the one before, for messages."""
    offset = file.tell()
    head = file.read(_HEAD.size + _CHECKSUM.size)
    if not head:
        return None
    follows = "the first game" if last_game is None else f"the game after game {last_game}"
    if len(head) < _HEAD.size + _CHECKSUM.size:
        raise _TornReplayError(f"{path}: byte {offset}: the file ends within {follows}", offset)
    if not _intact(head):
        raise ReplayError(f"{path}: byte {offset}: the record of {follows} is damaged", offset=offset)
    length, game, seed, score, largest, start, final = _HEAD.unpack(head[: _HEAD.size])
    moves = file.read(length + _CHECKSUM.size)
    if len(moves) < length + _CHECKSUM.size:
        raise _TornReplayError(f"{path}: byte {offset}: the file ends within game {game}", offset, game)
    if not _intact(moves):
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


def _intact(record: bytes) -> bool:
    content, checksum = record[: -_CHECKSUM.size], record[-_CHECKSUM.size :]
    return _CHECKSUM.pack(crc32(content)) == checksum
