"""Programs that train, in one process or in several; threads in their place."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import torch
from octofold_training.run.processes import Processes


def octofold_train(*arguments: object, folder: Path, processes: int = 1) -> subprocess.Popen[str]:
    """Start the command in `folder`; several processes are `torchrun`'s."""
    return started("-m", "octofold_training.cli", *arguments, folder=folder, processes=processes)


def octofold_papers(*arguments: object, folder: Path, processes: int = 1) -> subprocess.Popen[str]:
    """Start the command in `folder`; several processes are `torchrun`'s."""
    return started("-m", "octofold_papers.cli", *arguments, folder=folder, processes=processes)


def started(*program: object, folder: Path, processes: int) -> subprocess.Popen[str]:
    """Start a Python program in `folder`; several processes are `torchrun`'s."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [sys.executable, *(torchrun if processes > 1 else []), *map(str, program)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(process: subprocess.Popen[str]) -> str:
    """What the command printed; it must end well."""
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out


class Exchange:
    """What the threads of a test give each other."""

    def __init__(self, count: int) -> None:
        self.barrier = threading.Barrier(count, timeout=60)
        self.given: list[torch.Tensor | None] = [None] * count


class ThreadOfMany(Processes):
    """A thread in the place of a process."""

    def __init__(self, rank: int, exchange: Exchange) -> None:
        super().__init__(rank, len(exchange.given))
        self._exchange = exchange

    def gather(self, numbers: torch.Tensor) -> list[torch.Tensor]:
        self._exchange.given[self.rank] = numbers.clone()
        self._exchange.barrier.wait()
        gathered = [each for each in self._exchange.given if each is not None]
        self._exchange.barrier.wait()
        return gathered

    def add_up(self, numbers: torch.Tensor) -> torch.Tensor:
        return numbers.copy_(torch.stack(self.gather(numbers)).sum(dim=0))
