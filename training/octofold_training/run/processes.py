"""Training in several processes that `torchrun` starts, or in a single one.

Every process has the whole network and computes its part of each batch. Gradients are summed before each
update, so all processes keep the same weights.

Sums go through memory that the processes share: over loopback sockets, one costs as much as learning from a
hundred positions. Each process writes its numbers to a place of its own, waits for the others, and adds up
all places in the same order, so that the sums are equal to the last bit.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import numba
import torch
import torch.distributed.nn  # before there is a process group, see `joined_processes`
from octofold_game.commands.signals import handling
from octofold_game.system.processors import usable_cores
from torch import Tensor, distributed, nn

from octofold_training.errors import FailedInAnotherProcess, TrainingError
from octofold_training.run.progress import notice


class Processes:
    """The place of this process among those that train together.

    With several processes, Ctrl-C, SIGTERM and SIGHUP take effect in `check`, in all processes at once. If
    one process ended alone, the others would wait for its part forever.
    """

    def __init__(
        self,
        rank: int = 0,
        count: int = 1,
        share_memory: bool = False,
        device: torch.device | None = None,
    ) -> None:
        self.rank = rank
        """Number of this process; 0 writes the files."""
        self.count = count
        self.interrupted = False
        self._device = device
        self._share_memory = share_memory
        self._sums: SharedSums | None = None

    def part(self, size: int) -> slice:
        """Which rows of a batch of that size are this process's."""
        return slice(self.rank, size, self.count)

    def add_gradients(self, network: nn.Module) -> None:
        """Replace every gradient by the sum over all processes."""
        if self.count == 1:
            return
        gradients = [weights.grad for weights in network.parameters() if weights.grad is not None]
        if self._share_memory and not self._sums:
            self._sums = shared_sums(sum(each.numel() for each in gradients), self.rank, self.count)
            self._share_memory = self._sums is not None
        if self._sums:
            self._sums.add(gradients)
            return
        total = self.add_up(torch.cat([gradient.flatten() for gradient in gradients]))
        for gradient, part in zip(gradients, total.split([each.numel() for each in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def add_up(self, numbers: Tensor) -> Tensor:
        """The sum of `numbers` over all processes."""
        if self.count > 1:
            distributed.all_reduce(numbers)
        return numbers

    def gather(self, numbers: Tensor) -> list[Tensor]:
        """The `numbers` of every process, which have the same shape everywhere."""
        if self.count == 1:
            return [numbers]
        gathered = [torch.empty_like(numbers) for _ in range(self.count)]
        distributed.all_gather(gathered, numbers)
        return gathered

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """A block that all processes enter: where it fails in one, all end, and the first to fail says why.

        A process that ended alone would break the next sum of the others.

        Raises:
            FailedInAnotherProcess: it failed in another process.
        """
        if self.count == 1:
            yield
            return
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            failure = error
        failed = torch.zeros(self.count, device=self._device)
        failed[self.rank] = failure is not None
        ranks = self.add_up(failed).nonzero().flatten().tolist()
        if ranks:
            raise failure if failure and ranks[0] == self.rank else FailedInAnotherProcess

    def check(self, seconds: float) -> float:
        """The seconds measured by process 0, so that all processes stop and save together.

        Raises `KeyboardInterrupt` in every process if one of them was interrupted.
        """
        if self.count == 1:
            return seconds
        shared = torch.tensor([0.0 if self.rank else seconds, float(self.interrupted)], device=self._device)
        clock, interrupted = self.add_up(shared).tolist()
        if interrupted:
            raise KeyboardInterrupt
        return float(clock)

    def note_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """Handle a signal: only note it, since all processes must stop at the same update."""
        if not (self.interrupted or self.rank):  # torchrun passes on what the terminal has sent to all
            notice("stopping after the next report")
        self.interrupted = True


ONE_PROCESS = Processes()


def require_one_process(what: str) -> None:
    """Raises `TrainingError` that `what` trains in one process, if `torchrun` has started several."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise TrainingError(f"{what} trains in one process; start it without torchrun")


@contextmanager
def joined_processes(device: torch.device) -> Iterator[Processes]:
    """Join the processes that `torchrun` has started, if it has, until the block ends.

    Functions of `torch.distributed.nn` keep the process group that there is when they are imported, as the
    defaults of their arguments. If that were ours, its threads would outlive the block, and could abort a
    process that has done its work while Python ends.
    """
    count, on_this_machine = (int(os.environ.get(f"{of}WORLD_SIZE", "1")) for of in ("", "LOCAL_"))
    # More threads than cores would keep each other waiting for most of the time.
    cores = max(1, usable_cores() // on_this_machine)
    numba.set_num_threads(min(cores, numba.get_num_threads()))
    torch.set_num_threads(min(cores, torch.get_num_threads()))
    if count == 1:
        yield ONE_PROCESS
        return
    distributed.init_process_group("gloo" if device.type == "cpu" else "nccl")
    together = Processes(
        distributed.get_rank(), count, device.type == "cpu" and on_this_machine == count, device
    )
    try:
        with handling(together.note_interrupt, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            yield together
    finally:
        distributed.destroy_process_group()


_MEMORY = Path("/dev/shm")
_LONGEST_PATH = 256  # characters


class SharedSums:
    """Sums of arrays of equal size over all processes, by shared memory."""

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
    """A file in memory whose bytes are all reserved, so that a later write cannot fail."""
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
