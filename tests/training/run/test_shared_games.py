"""A student that several processes train: each plays games of its own, and all keep the same weights."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from octofold_game.bitboards import unpack
from octofold_players.ntuple import NTupleNetwork
from octofold_training.errors import EndedElsewhere, TrainingError
from octofold_training.learners.distil import Distillation, DistilOptions
from octofold_training.run.folders import alone_in
from octofold_training.run.long_run import resume, save_state
from octofold_training.run.processes import Processes
from support.training import finished, octofold_train

ARCHITECTURE = {"kind": "cnn", "layers": 2, "channels": 16, "exponents": 16}
SMALL = (
    '[network]\nkind = "cnn"\nlayers = 2\nchannels = 16\nexponents = 16\n'
    "[distil]\nbatch_size = 64\nslices = 2\npositions = 2560\n"
)
OPTIONS = DistilOptions(batch_size=64, slices=2, warm_up=64.0, muon=True)


class _Exchange:
    """What the threads of a test give each other."""

    def __init__(self, count: int) -> None:
        self.barrier = threading.Barrier(count, timeout=60)
        self.given: list[torch.Tensor | None] = [None] * count


class _Thread(Processes):
    """A thread in the place of a process."""

    def __init__(self, rank: int, exchange: _Exchange) -> None:
        super().__init__(rank, len(exchange.given))
        self._exchange = exchange

    def gathered(self, numbers: torch.Tensor) -> list[torch.Tensor]:
        self._exchange.given[self.rank] = numbers.clone()
        self._exchange.barrier.wait()
        gathered = [each for each in self._exchange.given if each is not None]
        self._exchange.barrier.wait()
        return gathered

    def added(self, numbers: torch.Tensor) -> torch.Tensor:
        return numbers.copy_(torch.stack(self.gathered(numbers)).sum(dim=0))


def _two_runs(teacher: NTupleNetwork, prepare: Callable[[Distillation], Any]) -> list[Distillation]:
    """Two threads that share a run; both `prepare` it and make some updates."""
    exchange = _Exchange(2)
    # One after another: unlike processes, threads share the random numbers that the first weights come from.
    runs = [
        Distillation(OPTIONS, ARCHITECTURE, teacher, processes=_Thread(rank, exchange)) for rank in range(2)
    ]

    def learn(run: Distillation) -> None:
        prepare(run)
        run.learn(3)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(learn, runs))
    return runs


def test_processes_play_games_of_their_own_and_keep_the_same_weights(teacher: NTupleNetwork) -> None:
    first, second = _two_runs(teacher, Distillation.warm_up)
    assert first.positions == second.positions == 3 * OPTIONS.batch_size
    for mine, theirs in zip(first.network.parameters(), second.network.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert not set(first.pool.boards.tolist()) & set(second.pool.boards.tolist())


def test_a_run_goes_on_in_another_number_of_processes(teacher: NTupleNetwork, tmp_path: Path) -> None:
    first, second = _two_runs(teacher, Distillation.warm_up)
    save_state(first, tmp_path)
    alone = Distillation(OPTIONS, ARCHITECTURE, teacher)
    resume(alone, tmp_path)
    halves = [each.pool.boards.reshape(2, 2, -1) for each in (first, second)]  # slices, teacher and student
    assert np.array_equal(np.stack(halves, axis=3).ravel(), alone.pool.boards)
    assert alone.learn(1).positions == 4 * OPTIONS.batch_size

    save_state(alone, tmp_path)
    again = _two_runs(teacher, lambda run: resume(run, tmp_path))
    assert again[0].positions == 7 * OPTIONS.batch_size
    for mine, theirs in zip(again[0].network.parameters(), again[1].network.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert not set(again[0].pool.boards.tolist()) & set(again[1].pool.boards.tolist())


@pytest.mark.parametrize("failing", [{0}, {1}, {0, 1}], ids=str)
def test_where_one_process_fails_all_end_and_the_first_says_why(failing: set[int]) -> None:
    exchange = _Exchange(2)

    def ended(rank: int) -> Exception | None:
        try:
            with _Thread(rank, exchange).agreed():
                if rank in failing:
                    raise TrainingError(f"process {rank} cannot begin")
        except Exception as error:
            return error
        return None

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(ended, range(2)))
    speaks = min(failing)
    assert str(found[speaks]) == f"process {speaks} cannot begin"
    assert isinstance(found[1 - speaks], EndedElsewhere)


@pytest.mark.timeout(300)
def test_a_run_that_process_0_refuses_ends_in_one_line_of_the_command(
    teacher: NTupleNetwork, tmp_path: Path
) -> None:
    teacher.save(tmp_path / "teacher")
    (tmp_path / "small.toml").write_text(SMALL)
    command = ("student", "small.toml", "--teacher", "teacher", "--device", "cpu")
    with alone_in(tmp_path / "runs" / "small"):
        process = octofold_train(*command, folder=tmp_path, processes=2)
        _, said = process.communicate(timeout=250)
    assert process.returncode == 1
    assert said.count("octofold-train: runs/small: another process is training in this folder\n") == 1
    assert "octofold_training/" not in said  # no traceback but torchrun's own


@pytest.mark.timeout(300)  # on a machine that may be busy, a process takes long to begin
def test_the_command_plays_running_games_in_every_process(teacher: NTupleNetwork, tmp_path: Path) -> None:
    teacher.save(tmp_path / "teacher")
    (tmp_path / "small.toml").write_text(SMALL)
    command = ("student", "small.toml", "--teacher", "teacher", "--device", "cpu")
    assert "finished: 2,560 of 2,560 positions" in finished(
        octofold_train(*command, folder=tmp_path, processes=2)
    )
    alone = Distillation(OPTIONS, ARCHITECTURE, teacher)
    resume(alone, tmp_path / "runs" / "small")
    sums = unpack(alone.pool.boards).astype(np.int64)
    tiles = np.where(sums > 0, 1 << sums, 0).sum(axis=1)
    for process in range(2):  # the moves of a new game come to no more than some 50
        assert np.median(tiles[process::2]) > 200


def test_games_that_cannot_be_shared_equally_are_refused(teacher: NTupleNetwork) -> None:
    with pytest.raises(TrainingError, match=r"batch_size is 64; 3 processes need a multiple of 6"):
        Distillation(OPTIONS, ARCHITECTURE, teacher, processes=Processes(0, 3))
