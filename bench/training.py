"""How fast the trainers are: learning moves of the teacher, positions of the student.

    python bench/training.py

The student's forward and backward pass is compared with the same network on `conv2d`, both in the type that
the trainer picks. The teacher's rate depends on how full its tables are; with `--teacher` the network of a
run is measured, else a new one after two warm-up slices.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from harness import interleave, medians, report
from octofold_training.distil import fastest_type
from octofold_training.networks import CNN
from octofold_training.ntuple_td import NTupleLearner, NTupleOptions
from torch import Tensor, nn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--teacher", type=Path, help="folder of a teacher's run")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    learning = NTupleOptions()
    if options.teacher:
        learner = NTupleLearner.resume(learning, options.teacher)
    else:
        learner = NTupleLearner(learning)
        learner.learn(5_000_000)
    learner.learn(100_000)

    network = CNN(layers=5, channels=222, exponents=16)

    def on_conv2d(one_hot: Tensor) -> Tensor:
        x = one_hot
        for convolution in network.convolutions:
            weight, bias = convolution.weight.to(x.dtype), convolution.bias.to(x.dtype)
            x = torch.relu(nn.functional.conv2d(nn.functional.pad(x, (0, 1, 0, 1)), weight, bias))
        return network.dense(x.flatten(1).float())

    def teacher() -> float:
        progress = learner.learn(5_000_000)
        return progress.moves / progress.seconds

    found = medians(
        interleave(
            {
                "teacher, moves/s": teacher,
                "student (cnn5), positions/s": lambda: _positions_per_second(network, network),
                "the same on conv2d, positions/s": lambda: _positions_per_second(network, on_conv2d),
            },
            options.rounds,
        )
    )
    rows = [(name, f"{value:,.0f}") for name, value in found.items()]
    report("training", ["what", "rate"], rows, type=str(fastest_type()), rates=found)


def _positions_per_second(network: nn.Module, forward: Callable[[Tensor], Tensor]) -> float:
    batch = 1024
    dtype = fastest_type()
    exponents = torch.randint(0, 16, (batch, 16))
    one_hot = torch.eye(16, dtype=dtype)[exponents].view(batch, 4, 4, 16).permute(0, 3, 1, 2)
    targets = torch.softmax(torch.randn(batch, 4), dim=1)
    updates = 5
    for update in range(updates + 1):
        if update == 1:
            start = time.perf_counter()
        network.zero_grad()
        nn.functional.cross_entropy(forward(one_hot), targets).backward()
    return batch * updates / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
