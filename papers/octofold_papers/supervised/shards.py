"""Shuffles play logs for training, into shards: files that are mapped into memory one at a time.

Together, the shards contain the moves in random order. Each move goes to a random shard, and each shard is
shuffled. So all orders are equally likely, although at most one shard is in memory. A move takes 18 bytes: 16
exponents, the move, and the cell of the new tile. With 256 shards, 6 x 10^8 moves are 42 MB per shard.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from octofold_game.play_logs.moves import CellReadings, CheckedMoves, LogError, LoggedMoves
from octofold_game.play_logs.reading import BadLine, log_files, read_log
from octofold_game.rules import LARGEST_EXPONENT
from octofold_game.system.files import name_file_in_errors, write_text
from octofold_training.run.folder import exclusive_folder
from octofold_training.run.progress import ProgressLine, notice

if TYPE_CHECKING:
    from octofold_papers.cli import MovesFlags

_FORMAT = 1
_INDEX = "index.json"
_SUFFIX = ".moves"
_LOCK = "lock"
_ROW = 18
_LARGEST = np.array([LARGEST_EXPONENT] * 16 + [3, 15], np.uint8)
"""Maximum of each column of a shard: 16 exponents, the move and the cell."""
_SCATTER_ROWS = 1 << 16
"""Minimum number of moves that are read before they are sent to the shards together."""
_BUFFER_BYTES = 1 << 16
"""Size of the write buffer of each shard's file."""
_BAD_LINES_SHOWN = 20


def shuffle_moves(flags: MovesFlags) -> None:
    """Shuffle the moves of play logs into a new folder. Print the first bad lines and the number of moves."""
    logs = [file for log in flags.logs for file in log_files(log)]
    read, bad_lines = 0, 0
    with ProgressLine() as line:

        def show(moves: int) -> None:
            nonlocal read
            read += moves
            line.show(f"{read / 1e6:.1f}M moves read")

        def report(bad: BadLine) -> None:
            nonlocal bad_lines
            bad_lines += 1
            if bad_lines <= _BAD_LINES_SHOWN:
                notice(f"skipped: {bad}")

        sources = convert(logs, flags.out, report, show, seed=flags.seed)
    moves, bad = (sum(getattr(source, name) for source in sources) for name in ("moves", "bad_lines"))
    print(f"{flags.out}: {moves:,} moves (log files: {len(logs):,}; bad lines skipped: {bad:,})")
    total = CellReadings.sum(source.last_field for source in sources)
    print(f"moves by the meaning of their last field: {total}")


@dataclass(frozen=True)
class ConvertedLog:
    """The result of converting one log file."""

    file: str
    moves: int
    bad_lines: int
    last_field: CellReadings


def convert(
    logs: Sequence[Path],
    folder: Path,
    on_bad: Callable[[BadLine], None] = lambda _: None,
    on_read: Callable[[int], None] = lambda _: None,
    shards: int = 256,
    seed: int = 0,
) -> list[ConvertedLog]:
    """Shuffle the moves of logs into a new folder of shards. A line with an illegal move is a bad line.

    Args:
        logs: log files of any format.
        folder: the new folder. It appears when all shards are complete.
        on_bad: called for each bad line, which is skipped.
        on_read: called with the number of moves read since the last call.
        shards: number of shards. One shard is in memory at a time.
        seed: seed of the order.

    Returns:
        The result of each log file.

    Raises:
        LogError: the folder exists, `FOLDER.partial` has other files, a log is unreadable, or no moves exist.
        TrainingError: another process is making the folder, or it cannot be written.
        OSError: a file cannot be read or written.
    """
    if folder.exists():
        raise LogError(f"{folder} already exists; name another --out")
    partial = folder.with_name(folder.name + ".partial")
    _require_ours(partial)
    with exclusive_folder(partial, folder):
        try:
            with name_file_in_errors(folder):
                random = np.random.default_rng(seed)
                sources = _scatter(logs, partial, on_bad, on_read, shards, random)
                if not any(source.moves for source in sources):
                    raise LogError(f"no moves in {', '.join(map(str, logs))}")
                counts = [_shuffle(partial / _shard_file(shard), random) for shard in range(shards)]
                index = {
                    "format": _FORMAT,
                    "shards": counts,
                    "seed": seed,
                    "sources": list(map(asdict, sources)),
                }
                write_text(partial / _INDEX, json.dumps(index, indent=2) + "\n")
                for other in partial.iterdir():  # the lock file, and files of a conversion that was killed
                    if other.name not in (_INDEX, *map(_shard_file, range(shards))):
                        other.unlink()
                partial.rename(folder)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return sources


def _require_ours(partial: Path) -> None:
    """Raise `LogError` if a folder contains a file that cannot come from an interrupted conversion."""
    others = [
        file
        for file in partial.glob("*")
        if file.suffix != _SUFFIX and not file.match(f"{_INDEX}*") and file.name != _LOCK
    ]
    if others:
        raise LogError(f"{partial} contains {others[0].name} and would be deleted; name another --out")


def _scatter(
    logs: Sequence[Path],
    folder: Path,
    on_bad: Callable[[BadLine], None],
    on_read: Callable[[int], None],
    shards: int,
    random: np.random.Generator,
) -> list[ConvertedLog]:
    """Send each move to a random shard. Return the result of each log file."""
    sources = []
    with ExitStack() as stack:
        files = [
            stack.enter_context((folder / _shard_file(shard)).open("wb", buffering=_BUFFER_BYTES))
            for shard in range(shards)
        ]
        for log in logs:
            bad: list[int] = [0]

            def note(line: BadLine, bad: list[int] = bad) -> None:
                bad[0] += 1
                on_bad(line)

            readings = CellReadings()

            def illegal(moves: LoggedMoves, readings: CellReadings = readings) -> list[tuple[int, str]]:
                # Training does not read the cell, so a move is legal whatever its cell is.
                checked = CheckedMoves.of(moves)
                readings.add(checked)
                return checked.illegal()

            total = 0
            for moves in _gathered(read_log(log, note, illegal)):
                to = random.integers(0, shards, len(moves), dtype=np.uint16)
                order = np.argsort(to, kind="stable")
                rows = _rows(moves)[order]
                bounds = np.searchsorted(to[order], np.arange(shards + 1)).tolist()
                for file, (start, end) in zip(files, pairwise(bounds), strict=True):
                    file.write(rows[start:end].data)
                total += len(moves)
                on_read(len(moves))
            sources.append(ConvertedLog(str(log), total, bad[0], readings))
    return sources


def _gathered(blocks: Iterator[LoggedMoves]) -> Iterator[LoggedMoves]:
    """Yield the moves of `blocks` in larger blocks."""
    waiting: list[LoggedMoves] = []
    for block in blocks:
        waiting.append(block)
        if sum(map(len, waiting)) >= _SCATTER_ROWS:
            yield LoggedMoves.joined(waiting)
            waiting = []
    if waiting:
        yield LoggedMoves.joined(waiting)


def _rows(moves: LoggedMoves) -> NDArray[np.uint8]:
    rows = np.empty((len(moves), _ROW), dtype=np.uint8)
    rows[:, :16], rows[:, 16], rows[:, 17] = moves.boards, moves.moves, moves.cells
    return rows


def _shuffle(file: Path, random: np.random.Generator) -> int:
    """Shuffle the moves of one shard, and return their number."""
    rows = np.fromfile(file, dtype=np.uint8).reshape(-1, _ROW)
    file.write_bytes(rows[random.permutation(len(rows))].data)
    return len(rows)


def _shard_file(shard: int) -> str:
    return f"{shard:04}{_SUFFIX}"


class ShuffledMoves:
    """The moves in a folder of shards, in a new order every epoch. One shard is in memory at a time."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        """Open the folder.

        Args:
            folder: a folder made by `convert`.
            seed: seed of the order of every epoch.

        Raises:
            LogError: the index is missing or damaged or lists no moves, or a shard has the wrong size.
        """
        try:
            index = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
            written = index["format"]
            counts = [int(count) for count in index["shards"]] if written == _FORMAT else []
        except OSError as error:
            raise LogError(
                f"{folder / _INDEX}: {error.strerror}; make the folder with `octofold-papers moves`"
            ) from error
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise LogError(f"{folder / _INDEX} is damaged ({error})") from error
        if written != _FORMAT:
            raise LogError(f"{folder / _INDEX}: format must be {_FORMAT}, got {written}")
        if not sum(counts):
            raise LogError(f"{folder / _INDEX} lists no moves")
        for shard, count in enumerate(counts):
            file = folder / _shard_file(shard)
            size = file.stat().st_size if file.is_file() else "no file"
            if size != count * _ROW:
                raise LogError(f"{file}: must have {count * _ROW} bytes according to {_INDEX}, got {size}")
        self.folder = folder
        self._counts = counts
        self._seed = seed

    def __len__(self) -> int:
        """Return the number of moves."""
        return sum(self._counts)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of all moves in the order of the shards, in hexadecimal. The first use reads all shards."""
        digest = hashlib.sha256()
        for shard in range(len(self._counts)):
            with (self.folder / _shard_file(shard)).open("rb") as file:
                hashlib.file_digest(file, lambda: digest)
        return digest.hexdigest()

    def batches(self, epoch: int, size: int, start: int = 0) -> Iterator[LoggedMoves]:
        """Yield the moves of an epoch in batches of `size`. The last batch may be smaller.

        Args:
            epoch: number of the epoch, which determines the order.
            size: moves per batch.
            start: number of moves to skip, to continue where an earlier call stopped.

        Raises:
            LogError: a shard has a row that is not a move.
        """
        waiting: list[NDArray[np.uint8]] = []
        missing = size
        for rows in self._pieces(epoch, start):
            while len(rows):
                waiting.append(rows[:missing])
                rows = rows[missing:]
                missing -= len(waiting[-1])
                if not missing:
                    yield _moves(waiting)
                    waiting, missing = [], size
        if waiting:
            yield _moves(waiting)

    def _pieces(self, epoch: int, start: int) -> Iterator[NDArray[np.uint8]]:
        """Yield pieces `[M, 18]` of the epoch's moves in their order, without the first `start` moves."""
        for shard in np.random.default_rng([self._seed, epoch]).permutation(len(self._counts)).tolist():
            count = self._counts[shard]
            if start >= count:
                start -= count
                continue
            order = np.random.default_rng([self._seed, epoch, shard]).permutation(count)[start:]
            start = 0
            file = self.folder / _shard_file(shard)
            mapped = np.memmap(file, dtype=np.uint8, mode="r", shape=(count, _ROW))
            for piece in range(0, len(order), _SCATTER_ROWS):
                rows = mapped[order[piece : piece + _SCATTER_ROWS]]
                if (rows.max(axis=0) > _LARGEST).any():
                    raise LogError(f"{file} is damaged: it has a row that is not a move")
                yield rows


def _moves(parts: Sequence[NDArray[np.uint8]]) -> LoggedMoves:
    rows = np.concatenate(parts)
    return LoggedMoves(np.ascontiguousarray(rows[:, :16]), rows[:, 16].copy(), rows[:, 17].copy())
