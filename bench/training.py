"""How fast the trainers are: learning moves of the teacher, positions of a student, and where its time goes.

    python bench/training.py --teacher runs/teacher --recipe training/recipes/flagship.toml

The teacher's rate depends on how full its tables are; with `--teacher` the network of a run is measured, else
a new one after some warm-up. A student's whole update (labels, symmetries, forward, backward, optimiser, game
stepping) is compared with forward and backward alone, and for a padded CNN the trainer's convolution with
`conv2d`, in the type that the trainer picks.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from harness import interleave, medians, report
from octofold_training.distil import Distillation, DistilOptions
from octofold_training.encoding import fastest_type
from octofold_training.networks import CNN
from octofold_training.ntuple_td import NTupleLearner, NTupleOptions
from octofold_training.recipes import read_recipe
from torch import Tensor, nn

RECIPES = Path(__file__).parent.parent / "training" / "recipes"
UPDATES = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--teacher", type=Path, help="folder of a teacher's run (default: a new one)")
    parser.add_argument("--recipe", type=Path, default=RECIPES / "flagship.toml", help="of the student")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    learning = read_recipe(RECIPES / "teacher.toml").options("ntuple", NTupleOptions)
    if options.teacher:
        learner = NTupleLearner.resume(learning, options.teacher)
    else:
        learner = NTupleLearner(learning)
        learner.learn(5_000_000)
    learner.learn(100_000)

    recipe = read_recipe(options.recipe)
    run = Distillation(recipe.options("distil", DistilOptions), recipe.table("network"), learner.network)
    run.pool.warm_up(learner.network)
    run.learn(3)
    batch = run.options.batch_size
    boards = run.pool.batch()
    moves = learner.network.action_values(boards).argmax(axis=1).astype(np.int8)

    def teacher() -> float:
        progress = learner.learn(3_000_000)
        return progress.moves / progress.seconds

    def student() -> float:
        return run.learn(UPDATES).positions_per_second

    measures: dict[str, Callable[[], float]] = {
        f"teacher with {len(learner.network.tuples)} tuples, moves/s": teacher,
        f"student ({recipe.name}), positions/s": student,
        "forward and backward alone, positions/s": lambda: _passes(run.student, run.student, batch),
        f"labels of {batch:,} boards, ms": lambda: _ms(lambda: learner.network.action_values(boards)),
        f"game stepping of {batch:,} boards, ms": lambda: _ms(lambda: run.pool.advance(moves, moves)),
    }
    if isinstance(run.student, CNN):
        on_conv2d = _on_conv2d(run.student)
        measures["the same on conv2d, positions/s"] = lambda: _passes(run.student, on_conv2d, batch)
    found = medians(interleave(measures, options.rounds))
    rows = [
        (name, f"{value:,.2f}" if name.endswith("ms") else f"{value:,.0f}") for name, value in found.items()
    ]
    report("training", ["what", "figure"], rows, type=str(fastest_type()), figures=found)


def _passes(network: nn.Module, forward: Callable[[Tensor], Tensor], batch: int) -> float:
    """Positions a second of forward and backward passes."""
    dtype = fastest_type()
    exponents = torch.randint(0, 16, (batch, 16))
    one_hot = torch.eye(16, dtype=dtype)[exponents].view(batch, 4, 4, 16).permute(0, 3, 1, 2)
    targets = torch.softmax(torch.randn(batch, 4), dim=1)
    for update in range(UPDATES + 1):
        if update == 1:
            start = time.perf_counter()
        network.zero_grad()
        nn.functional.cross_entropy(forward(one_hot), targets).backward()
    return batch * UPDATES / (time.perf_counter() - start)


def _on_conv2d(network: CNN) -> Callable[[Tensor], Tensor]:
    def forward(one_hot: Tensor) -> Tensor:
        x = one_hot
        for convolution in network.convolutions:
            weight, bias = convolution.weight.to(x.dtype), convolution.bias.to(x.dtype)
            x = torch.relu(nn.functional.conv2d(nn.functional.pad(x, (0, 1, 0, 1)), weight, bias))
        return network.dense(x.flatten(1).float())

    return forward


def _ms(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(20):
        work()
    return (time.perf_counter() - start) * 1000 / 20


if __name__ == "__main__":
    main()
