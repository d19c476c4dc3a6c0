"""Measures the cost of the generic export: cnn5 as an unknown PyTorch module, against its hand-made graph.

    python bench/graph/generic.py --checkpoint checkpoints/cnn5

Both have the same weights, folded with eight views, in float32 and in 8 bits. The unknown module uses
nn.Conv2d, so onnxruntime runs convolutions; the hand-made graph skips the products with the padding. The
8-bit forms are calibrated on random boards, which changes answers but not speed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from octofold_export.description.hints import hints_from_flags
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import GraphEvaluator, head
from octofold_export.sources.described import described_source
from octofold_export.sources.octofold_checkpoint import from_checkpoint
from octofold_export.sources.source import Source
from octofold_export.sources.torch_network import TorchNetwork
from octofold_game.system.processors import cpu_name, usable_cores
from octofold_server.backends.backend import Layout
from octofold_server.backends.onnx_backend import onnx_lanes
from octofold_training import checkpoints
from octofold_training.networks.cnn import CNN
from torch import Tensor, nn
from torch.nn import functional

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import interleave, medians, report
from lane_speed import boards_per_second, random_boards

AIM = {"fp32": 0.9, "int8": 0.6}
"""The goal: the share of the hand-made graph's speed that the generic one reaches."""

_BATCH = 8


class PlainCNN(nn.Module):
    """The network of a CNN checkpoint as most people would write it."""

    def __init__(self, network: CNN) -> None:
        super().__init__()
        self.convolutions = network.convolutions
        self.dense = network.dense

    def forward(self, planes: Tensor) -> Tensor:
        """One-hot planes to logits."""
        for convolution in self.convolutions:
            planes = functional.relu(convolution(functional.pad(planes, (0, 1, 0, 1))))
        logits: Tensor = self.dense(planes.flatten(1))
        return logits


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--checkpoint",
        type=Path,
        default=Path("checkpoints/cnn5"),
        help="checkpoint of a CNN (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="length of one measure in one round (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (default: %(default)s)")
    options = parser.parse_args()

    network = checkpoints.load(options.checkpoint).network
    if not isinstance(network, CNN):
        raise SystemExit(f"{options.checkpoint} is a {type(network).__name__}; --checkpoint must be a CNN")
    stranger = TorchNetwork(PlainCNN(network), "plain cnn")
    hints = hints_from_flags({"answers.kind": "policy_logits"})
    sources = {
        "hand-made": from_checkpoint(options.checkpoint),
        "generic": described_source(stranger, hints, {"kind": "plain cnn"}, ""),
    }
    boards = random_boards(_BATCH)
    measures: dict[str, Callable[[], float]] = {}
    for path, source in sources.items():
        for precision, evaluator in forms(source).items():
            graph = fold(head(source.description, evaluator), "vote", 8).SerializeToString()
            lanes = onnx_lanes(graph, Layout("cpu", _BATCH, usable_cores(), 1))

            def measure(lanes=lanes) -> float:  # type: ignore[no-untyped-def]
                return boards_per_second(lanes, boards, options.seconds)

            measures[f"{path}, {precision}"] = measure
    speeds = medians(interleave(measures, options.rounds))
    shares = {
        precision: speeds[f"generic, {precision}"] / speeds[f"hand-made, {precision}"] for precision in AIM
    }
    rows = [(name, f"{speed:,.0f}", "") for name, speed in speeds.items()]
    rows += [
        (f"generic of hand-made, {name}", f"{share:.2f}", f"{AIM[name]:.1f}")
        for name, share in shares.items()
    ]
    title = f"generic export of {options.checkpoint.name} on {cpu_name()}, {usable_cores()} cores"
    report(title, ["graph", "boards/s", "goal"], rows, speeds=speeds, shares=shares)


def forms(source: Source) -> dict[str, GraphEvaluator]:
    """The network in float32 and in 8 bits; the first form if it has several 8-bit forms."""
    boards = np.random.default_rng(1).integers(0, 12, (256, 16)).astype(np.uint8)
    assert source.int8 is not None
    with torch.inference_mode():
        return {"fp32": source.fp32, "int8": source.int8(boards, lambda _: 0.0)}


if __name__ == "__main__":
    main()
