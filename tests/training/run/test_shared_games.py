"""A student that several processes train: each plays games of its own, and all keep the same weights."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from octofold_game.bitboards import unpack
from octofold_players.ntuple.network import NTupleNetwork
from octofold_training.errors import FailedInAnotherProcess, TrainingError
from octofold_training.learners.distil import Distillation, DistilOptions
from octofold_training.run.folders import exclusive_folder
from octofold_training.run.loop import resume, save_state
from octofold_training.run.processes import ONE_PROCESS, Processes
from support.training import Exchange, ThreadOfMany, finished, octofold_train
from torch import nn

ARCHITECTURE = {"kind": "cnn", "layers": 2, "channels": 16, "exponents": 16}
SMALL = (
    '[network]\nkind = "cnn"\nlayers = 2\nchannels = 16\nexponents = 16\n'
    "[distil]\nbatch_size = 64\nslices = 2\npositions = 2560\n"
)
OPTIONS = DistilOptions(batch_size=64, slices=2, warm_up=64.0, muon=True)


Make = Callable[[Processes], Distillation]


def _two_runs(make: Make, prepare: Callable[[Distillation], Any], *updates: int) -> list[Any]:
    """Two threads that share a run; both `prepare` it and make these numbers of updates, a report each."""
    exchange = Exchange(2)
    # One after another: unlike processes, threads share the random numbers that the first weights come from.
    runs = [make(ThreadOfMany(rank, exchange)) for rank in range(2)]

    def learn(run: Distillation) -> None:
        prepare(run)
        for number in updates:
            run.learn(number)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(learn, runs))
    return runs


@pytest.fixture
def student(teacher: NTupleNetwork) -> Make:
    """Makes a student for one of several processes."""
    return lambda processes: Distillation(OPTIONS, ARCHITECTURE, teacher, processes=processes)


def _assert_same_weights(first: nn.Module, second: nn.Module) -> None:
    for mine, theirs in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_processes_play_games_of_their_own_and_keep_the_same_weights(student: Make) -> None:
    first, second = _two_runs(student, Distillation.warm_up, 3)
    assert first.positions == second.positions == 3 * OPTIONS.batch_size
    _assert_same_weights(first.network, second.network)
    assert not set(first.pool.boards.tolist()) & set(second.pool.boards.tolist())


def test_a_run_goes_on_in_another_number_of_processes(student: Make, tmp_path: Path) -> None:
    first, second = _two_runs(student, Distillation.warm_up, 3)
    save_state(first, tmp_path)
    alone = student(ONE_PROCESS)
    resume(alone, tmp_path)
    halves = [each.pool.boards.reshape(2, 2, -1) for each in (first, second)]  # slices, teacher and student
    assert np.array_equal(np.stack(halves, axis=3).ravel(), alone.pool.boards)
    assert alone.learn(1).positions == 4 * OPTIONS.batch_size

    save_state(alone, tmp_path)
    resumed = _two_runs(student, lambda run: resume(run, tmp_path))
    assert not np.array_equal(resumed[0].pool.random, resumed[1].pool.random)
    again = _two_runs(student, lambda run: resume(run, tmp_path), 3)
    assert again[0].positions == 7 * OPTIONS.batch_size
    _assert_same_weights(again[0].network, again[1].network)
    assert not set(again[0].pool.boards.tolist()) & set(again[1].pool.boards.tolist())


def test_batches_of_another_size_go_on_with_the_same_games(
    student: Make, teacher: NTupleNetwork, tmp_path: Path
) -> None:
    first, _ = _two_runs(student, Distillation.warm_up, 3)
    save_state(first, tmp_path)
    as_before = student(ONE_PROCESS)
    resume(as_before, tmp_path)
    options = replace(OPTIONS, batch_size=2 * OPTIONS.batch_size, slices=OPTIONS.slices // 2)
    larger = Distillation(options, ARCHITECTURE, teacher)
    resume(larger, tmp_path)
    assert np.array_equal(larger.pool.boards, as_before.pool.boards)
    assert larger.learn(1).positions == (3 + 2) * OPTIONS.batch_size


def test_as_many_processes_go_on_as_if_they_had_not_stopped(student: Make, tmp_path: Path) -> None:
    stopped = _two_runs(student, Distillation.warm_up, 3)
    save_state(stopped[0], tmp_path)
    resumed = _two_runs(student, lambda run: resume(run, tmp_path), 4)
    never_stopped = _two_runs(student, Distillation.warm_up, 3, 4)
    for mine, theirs in zip(resumed, never_stopped, strict=True):
        _assert_same_weights(mine.network, theirs.network)
        assert np.array_equal(mine.pool.boards, theirs.pool.boards)


@pytest.mark.parametrize("failing", [{0}, {1}, {0, 1}], ids=str)
def test_where_one_process_fails_all_end_and_the_first_says_why(failing: set[int]) -> None:
    exchange = Exchange(2)

    def ended(rank: int) -> Exception | None:
        try:
            with ThreadOfMany(rank, exchange).agreed():
                if rank in failing:
                    raise TrainingError(f"process {rank} cannot begin")
        except Exception as error:
            return error
        return None

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(ended, range(2)))
    speaks = min(failing)
    assert str(found[speaks]) == f"process {speaks} cannot begin"
    assert isinstance(found[1 - speaks], FailedInAnotherProcess)


@pytest.mark.long  # torchrun and its processes each import torch
def test_a_run_that_process_0_refuses_ends_in_one_line_of_the_command(
    teacher: NTupleNetwork, tmp_path: Path
) -> None:
    teacher.save(tmp_path / "teacher")
    (tmp_path / "small.toml").write_text(SMALL)
    command = ("student", "small.toml", "--teacher", "teacher", "--device", "cpu")
    with exclusive_folder(tmp_path / "runs" / "small"):
        process = octofold_train(*command, folder=tmp_path, processes=2)
        _, said = process.communicate()
    assert process.returncode == 1
    assert said.count("octofold-train: runs/small: another process is training in this folder\n") == 1
    assert "octofold_training/" not in said  # no traceback but torchrun's own


@pytest.mark.long
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
