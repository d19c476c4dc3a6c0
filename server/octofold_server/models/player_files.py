"""Maps the files of players, which may have gigabytes: one copy in memory serves all lanes and processes."""

from __future__ import annotations

import hashlib
import mmap
import os
from io import BufferedReader
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import ListedFile, ServedPlayer
from octofold_game.system.files import open_regular, write_text
from octofold_proto.errors import ModelError

from octofold_server.models.repository import PIECE_BYTES, check_digest
from octofold_server.system.file_lock import locked

MAX_FILE_BYTES = 1 << 40


class PlayerFiles:
    """Reads the files of players.

    Args:
        digests: a folder in which the processes of one service share the digests of files, so that one of
            them hashes each; None if there is only this process.
        memory: the bytes of memory that the files of a player may have.
    """

    def __init__(self, digests: Path | None = None, memory: int | None = None) -> None:
        self._digests = digests
        self._memory = usable_memory() if memory is None else memory
        if digests is not None:
            digests.mkdir(exist_ok=True)

    def map(self, folder: Path, player: ServedPlayer) -> dict[str, NDArray[np.uint8]]:
        """The content of a player's files by name, read-only. The memory is that of the system's file cache.

        A file is hashed and mapped from one descriptor, so that nobody can put another in its place
        meanwhile.

        Args:
            folder: the folder of the version.
            player: lists the files.

        Raises:
            ModelError: a file cannot be read, or its SHA-256 is not the card's; or they have more bytes than
                fit into memory.
        """
        mapped = {}
        total = 0
        for name, listed in player.files.items():
            try:
                with open_regular(folder / listed.file, MAX_FILE_BYTES) as file:
                    total += os.fstat(file.fileno()).st_size
                    if total > self._memory:
                        raise ModelError(
                            f"{listed.file} does not fit into memory: the player's files have "
                            f"{total / 2**30:.1f} GiB or more, and {self._memory / 2**30:.1f} GiB can be used"
                        )
                    mapped[name] = self._map(file, listed)
            except (OSError, ValueError) as error:  # ValueError: to map an empty file
                why = error.strerror if isinstance(error, OSError) else error
                raise ModelError(f"{listed.file} cannot be read: {why}") from error
        return mapped

    def _map(self, file: BufferedReader, listed: ListedFile) -> NDArray[np.uint8]:
        check_digest(listed, self._digest(file))
        return np.frombuffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), np.uint8)

    def _digest(self, file: BufferedReader) -> str:
        if self._digests is None:
            return _sha256(file)
        status = os.fstat(file.fileno())
        # A write to the file changes the last of these times.
        state = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        known = self._digests / "-".join(map(str, state))
        with locked(known.with_suffix(".lock"), lambda: None):
            if not known.exists():
                write_text(known, _sha256(file))
            return known.read_text(encoding="ascii")


def _sha256(file: BufferedReader) -> str:
    digest = hashlib.sha256()
    while piece := file.read(PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


_CONTROL_GROUP = Path("/sys/fs/cgroup/memory.max")


def usable_memory() -> int:
    """The memory of the machine in bytes, or the limit of the control group (v2) if that is less."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(memory, int(_CONTROL_GROUP.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no control group, or "max"
        return memory
