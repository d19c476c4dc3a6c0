"""Keeps the boards that callers ask about, in files that `octofold-export --boards` reads.

A server sees boards, but not what becomes of them: the next board of a game comes as another call, if at all,
and perhaps from another caller. So it cannot write play logs, whose lines end with the cell of the new tile.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from pathlib import Path
from queue import Full, Queue
from secrets import token_hex

import numpy as np
from numpy.typing import NDArray
from octofold_game.system.files import whole_file

FILE_BOARDS = 65_536
"""Boards in a full file, of 16 bytes each."""

MAX_UNWRITTEN = 4
"""Files that wait for the disk; boards that come while so many wait are lost."""

_PATTERN = "asked-*.npy*"  # also what a process left behind that was killed while it wrote
_HEADER_BYTES = 128

_log = logging.getLogger(__name__)


class AskedBoards:
    """Collects boards, and writes full files on a thread of its own: no call waits for the disk.

    Args:
        folder: the folder of the files; it is made if it does not exist.
        most_bytes: maximum bytes of all files in it, also of those that other processes write; the oldest
            ones are removed.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._most_bytes = most_bytes
        self._boards = np.empty((FILE_BOARDS, 16), np.uint8)
        self._count = 0
        self._lost = 0
        self._lock = threading.Lock()  # guards the three above
        self._unwritten: Queue[NDArray[np.uint8] | None] = Queue(MAX_UNWRITTEN)
        self._writing = threading.Thread(target=self._write_all, name="asked boards", daemon=True)
        self._writing.start()

    def add(self, boards: NDArray[np.uint8]) -> None:
        """Keep boards `[N, 16] uint8`; any thread may call this."""
        with self._lock:
            while len(boards):
                room = self._boards[self._count :]
                fitting, boards = boards[: len(room)], boards[len(room) :]
                room[: len(fitting)] = fitting
                self._count += len(fitting)
                if self._count == FILE_BOARDS:
                    self._hand_over()

    def close(self, limit_seconds: float) -> None:
        """Write what is there, and wait for the disk, but not for longer than the limit."""
        with self._lock:
            self._hand_over()
        try:
            self._unwritten.put(None, timeout=limit_seconds)
        except Full:
            return
        self._writing.join(limit_seconds)

    def _hand_over(self) -> None:
        """Let the thread write the collected boards. The caller holds the lock."""
        if not self._count:
            return
        try:
            following = np.empty_like(self._boards)
            self._unwritten.put_nowait(self._boards[: self._count])
        except (Full, MemoryError):
            self._lost += self._count
        else:
            self._boards = following
        self._count = 0

    def _write_all(self) -> None:
        number, own = 0, token_hex(4)  # the processes of several containers may have the same id
        while (boards := self._unwritten.get()) is not None:
            # Names in order of time; the number tells files of the same moment apart.
            moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
            file = self._folder / f"asked-{moment}-{own}-{number:06}.npy"
            number += 1
            try:
                self._make_room(boards.nbytes + _HEADER_BYTES)
                with whole_file(file) as partial, partial.open("wb") as opened:
                    np.save(opened, boards)
            except OSError as error:
                self._lose(len(boards))
                _log.warning("cannot write %s: %s", file, error.strerror or error)
            with self._lock:
                lost, self._lost = self._lost, 0
            if lost:
                _log.warning("%d boards were asked about but not written to %s", lost, self._folder)

    def _make_room(self, size: int) -> None:
        """Remove the oldest files, so that one of this size fits."""
        sizes = {}
        for file in sorted(self._folder.glob(_PATTERN)):
            with suppress(FileNotFoundError):  # another process has removed it
                sizes[file] = file.stat().st_size
        used = sum(sizes.values())
        for file, freed in sizes.items():
            if used + size <= self._most_bytes:
                break
            file.unlink(missing_ok=True)
            used -= freed

    def _lose(self, count: int) -> None:
        with self._lock:
            self._lost += count
