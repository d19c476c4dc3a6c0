"""Sums over the processes of one machine through memory that they share.

A sum over loopback sockets costs as much as learning from a hundred positions. Here each process writes its
numbers to a place of its own, waits for the others, and adds up all places in the same order, so that the
sums are equal to the last bit.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, distributed

_MEMORY = Path("/dev/shm")
_LONGEST_PATH = 256  # characters


class SharedSums:
    """Sums of equally many numbers of every process, one after the other."""

    def __init__(self, memory: Tensor, rank: int) -> None:
        self._places = memory  # [2, processes, N]; two turns: a fast process may begin the next sum
        self._rank = rank
        self._turn = 0

    def add(self, parts: Sequence[Tensor]) -> None:
        """Replace every part by its sum over all processes, which all call this with N numbers in all."""
        sizes = [part.numel() for part in parts]
        places = [place.split(sizes) for place in self._places[self._turn]]
        self._turn = 1 - self._turn
        for own, part in zip(places[self._rank], parts, strict=True):
            own.view_as(part).copy_(part)
        distributed.barrier()
        # Into memory that is there: to ask the system for new memory would take longer than the sum.
        for part, first, second, *others in zip(parts, *places, strict=True):
            torch.add(first.view_as(part), second.view_as(part), out=part)
            for other in others:
                part += other.view_as(part)


def shared_sums(size: int, rank: int, count: int) -> SharedSums | None:
    """Sums of `size` float32 numbers, for all processes at once; None if there is no memory to share.

    The file has no name any more once all processes have it, so nothing is left behind by one that is killed.
    """
    path = _new_file(2 * count * size * 4) if rank == 0 else None
    shared_path = _broadcast_path(path)
    if not shared_path:
        return None
    try:
        memory = torch.from_file(shared_path, shared=True, size=2 * count * size, dtype=torch.float32)
        distributed.barrier()
    finally:
        if path:
            path.unlink()
    return SharedSums(memory.view(2, count, size), rank)


def _new_file(size: int) -> Path | None:
    """A file of that many bytes in memory, all of them reserved: a later write cannot fail."""
    if not _MEMORY.is_dir():
        return None
    file, name = tempfile.mkstemp(prefix="octofold-", dir=_MEMORY)
    try:
        os.posix_fallocate(file, 0, size)
    except OSError:  # containers often get 64 MB
        Path(name).unlink()
        return None
    finally:
        os.close(file)
    return Path(name)


def _broadcast_path(path: Path | None) -> str:
    """The path that process 0 tells all processes, or an empty text."""
    characters = torch.zeros(_LONGEST_PATH, dtype=torch.uint8)
    told = str(path or "").encode()
    characters[: len(told)] = torch.tensor(list(told), dtype=torch.uint8)
    distributed.broadcast(characters, src=0)
    return bytes(characters.tolist()).rstrip(b"\0").decode()
