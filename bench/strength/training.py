"""Measures how fast the trainers are: moves per second of teachers, positions per second of a student.

    python bench/strength/training.py --recipe training/recipes/flagship.toml

Teachers learn with the lambda and the restarts of their recipe. Their speed depends on how full the tables
are and on how long the games last, so new teachers of four and eight tuples learn for a while before they are
measured. `--teacher` adds the network of a run, which then also labels the student's boards. The memory of a
teacher is the growth of the process after every table entry has been touched.

The student's whole update (labels, symmetries, forward, backward, optimizer, game stepping) is compared with
forward and backward alone. For a padded CNN, the trainer's convolution is compared with `conv2d`, in the
floating-point type that the trainer chooses. The benchmark takes about a minute on two idle cores.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import torch
from octofold_players.ntuple.network import NTupleNetwork
from octofold_players.ntuple.player import NTupleSearch
from octofold_training.games.positions import PositionPool
from octofold_training.learners.distil import Distillation, DistilOptions
from octofold_training.learners.ntuple_td import NTupleLearner, NTupleOptions
from octofold_training.networks.cnn import CNN
from octofold_training.networks.dense import parameters
from octofold_training.networks.encoding import OneHot, fastest_type
from octofold_training.recipes import read_recipe
from torch import Tensor, nn

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import interleave, medians, report

RECIPES = Path(__file__).parents[2] / "training" / "recipes"
UPDATES = 10
LABELS = 1024
ALONE = "forward and backward alone, positions/s"
STEPPING = "game stepping of a batch, ms"


def main() -> None:
    """Run the benchmark."""
    options = _options()
    recipe_of_teacher = read_recipe(RECIPES / "teacher.toml").options("ntuple", NTupleOptions)
    learning = replace(recipe_of_teacher, first_moves=0.0, cool_down=0.0)
    teachers: dict[str, NTupleLearner] = {}
    memory: dict[str, float] = {}
    for tuples in (4, 8):
        before = _resident_gigabytes()
        learner = NTupleLearner(replace(learning, tuples=learning.tuples[:tuples]))
        learner.network.values.fill(0)
        learner.learn(2_000_000)
        teachers[f"{tuples}x6, new"] = learner
        memory[f"memory of the {tuples}x6 teacher, GB"] = _resident_gigabytes() - before
    teacher = learner.network
    if options.teacher:
        teachers["of the run"] = NTupleLearner.resume(learning, options.teacher)
        teacher = teachers["of the run"].network

    recipe = read_recipe(options.recipe)
    run = Distillation(recipe.options("distil", DistilOptions), recipe.table("network"), teacher)
    run.warm_up()
    run.learn(3)
    batch = run.options.batch_size
    boards = np.resize(run.pool.boards, LABELS)
    student = f"student ({recipe.name}), positions/s"
    measures: dict[str, Callable[[], float]] = {
        f"teacher {name}, moves/s": partial(_moves_per_second, learner) for name, learner in teachers.items()
    }
    measures |= {
        student: lambda: run.learn(UPDATES).positions_per_second,
        ALONE: lambda: _passes(run.network, run.micro_batches or run.network, batch),
        f"labels of {LABELS:,} boards, ms": lambda: _ms(lambda: teacher.action_values(boards)),
        f"labels of {LABELS:,} boards, two moves deep, ms": lambda: _ms(
            lambda: NTupleSearch(teacher, depth=2).values(boards), times=2
        ),
        STEPPING: lambda: _stepping_ms(run.pool, teacher),
    }
    if run.micro_batches:
        measures["the same in whole batches, positions/s"] = lambda: _passes(run.network, run.network, batch)
    if isinstance(run.network, CNN):
        on_conv2d = _on_conv2d(run.network)
        measures["the same on conv2d, positions/s"] = lambda: _passes(run.network, on_conv2d, batch)
    found = medians(interleave(measures, options.rounds))
    found["student against forward and backward alone, %"] = 100 * found[student] / found[ALONE]
    found["game stepping in a student's training, %"] = found[STEPPING] * found[student] / batch / 10
    found |= memory
    rows = [
        (name, f"{value:,.0f}" if name.endswith("/s") else f"{value:,.2f}") for name, value in found.items()
    ]
    report("training", ["what", "figure"], rows, type=str(fastest_type()), figures=found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--teacher", type=Path, help="folder of a teacher's run (default: only new teachers)")
    parser.add_argument(
        "--recipe",
        type=Path,
        default=RECIPES / "flagship.toml",
        help="recipe of the student (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds (default: %(default)s)")
    return parser.parse_args()


def _moves_per_second(learner: NTupleLearner) -> float:
    progress = learner.learn(1_500_000)
    return progress.moves / progress.seconds


def _resident_gigabytes() -> float:
    return psutil.Process().memory_info().rss / 1e9


def _stepping_ms(pool: PositionPool, teacher: NTupleNetwork) -> float:
    """Time to step the games of one batch, in milliseconds, without choosing the moves."""
    seconds = 0.0
    for _ in range(20):
        moves = teacher.action_values(pool.batch()).argmax(axis=1).astype(np.int8)
        start = time.perf_counter()
        pool.advance(moves, moves)
        seconds += time.perf_counter() - start
    return seconds * 1000 / 20


def _passes(network: nn.Module, forward: Callable[[Tensor], Tensor], batch: int) -> float:
    """Positions per second of forward and backward passes."""
    one_hot = OneHot(16, fastest_type())(torch.randint(0, 16, (batch, 16)))
    targets = torch.softmax(torch.randn(batch, 4), dim=1)
    for update in range(UPDATES + 1):
        if update == 1:
            start = time.perf_counter()
        network.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(forward(one_hot), targets))
    return batch * UPDATES / (time.perf_counter() - start)


def _on_conv2d(network: CNN) -> Callable[[Tensor], Tensor]:
    def forward(one_hot: Tensor) -> Tensor:
        x = one_hot
        for weight, bias in parameters(network.convolutions):
            padded = nn.functional.pad(x, (0, 1, 0, 1))
            x = torch.relu(nn.functional.conv2d(padded, weight.to(x.dtype), bias.to(x.dtype)))
        logits: Tensor = network.dense(x.flatten(1).float())
        return logits

    return forward


def _ms(work: Callable[[], object], times: int = 20) -> float:
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) * 1000 / times


if __name__ == "__main__":
    main()
