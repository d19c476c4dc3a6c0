"""Shipped graphs against those that this checkout's export makes of the same checkpoints, in turns.

    python bench/graph/exports.py                       # cnn5, flagship and swift
    python bench/graph/exports.py --model swift --rounds 3

A change of the export must not make graphs slower. What ships was made by an earlier one, with the same
weights, so every difference in speed is the export's. 8-bit forms are calibrated on boards of simple games,
which changes answers but not speed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from graph import cpu_us
from octofold_client.loadtest.boards import played_boards
from octofold_export.checks.recording import positions
from octofold_export.checks.runner import FoldedGraph
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import GraphEvaluator, head
from octofold_export.sources.octofold_checkpoint import from_checkpoint
from octofold_game.contract.model import Precision
from octofold_game.system.processors import cpu_name
from octofold_server.backends.backend import Backend, Layout
from octofold_server.backends.onnx_backend import onnx_lanes
from octofold_server.models.repository import VersionFolder, read_card, read_model, versions_by_name

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import interleave, report

BATCHES = (1, 8, 32)
CALIBRATION_BOARDS = 512


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--checkpoints", type=Path, default=Path("checkpoints"))
    parser.add_argument(
        "--model", action="append", help="may be given again (default: cnn5, flagship, swift)"
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--runs", type=int, default=8, help="of each batch in a round (default: %(default)s)")
    options = parser.parse_args()

    by_name = versions_by_name(options.models)
    boards = played_boards(15, max(BATCHES))
    measures = {}
    for model in options.model or ("cnn5", "flagship", "swift"):
        version = by_name[model][-1]
        for precision, lanes in graphs(version, options.checkpoints / model).items():
            for size in BATCHES:
                for name, lane in lanes.items():
                    run = partial(lane.run, boards[:size])
                    key = f"{model}, {precision}, batch {size}: {name}"
                    measures[key] = partial(cpu_us, run, size, options.runs)
    found = {name: min(rounds) for name, rounds in interleave(measures, options.rounds).items()}
    pairs = [name.removesuffix(": shipped") for name in found if name.endswith(": shipped")]
    ratios = {pair: found[f"{pair}: shipped"] / found[f"{pair}: now"] for pair in pairs}
    report(
        f"graphs shipped and made now, on {cpu_name()}",
        ["graph", "shipped, CPU us/board", "now, CPU us/board", "speed of now"],
        [
            (pair, f"{found[f'{pair}: shipped']:,.1f}", f"{found[f'{pair}: now']:,.1f}", f"{ratio:.3f}")
            for pair, ratio in ratios.items()
        ],
        cpu_us_per_board=found,
        ratios=ratios,
    )


def graphs(version: VersionFolder, checkpoint: Path) -> dict[str, dict[str, Backend]]:
    """By precision, a lane of the graph that ships and one of the graph that this export makes."""
    card, _ = read_card(version)
    made = dict(exported(checkpoint))
    found: dict[str, dict[str, Backend]] = {}
    for precision, model in made.items():
        shipped = read_model(version.path, card.precisions[precision])
        layout = Layout("cpu", max(BATCHES), lanes=1)
        (before,), (now,) = onnx_lanes(shipped, layout), onnx_lanes(model, layout)
        found[precision] = {"shipped": before, "now": now}
    return found


def exported(checkpoint: Path) -> Iterator[tuple[Precision, bytes]]:
    """The graphs of a checkpoint, with eight views, in float32 and in the 8-bit form that errs least."""
    source = from_checkpoint(checkpoint)

    def graph(evaluator: GraphEvaluator) -> onnx.ModelProto:
        return fold(head(source.description, evaluator), source.rule, 8)

    exact = graph(source.fp32)
    boards = played_boards(source.description.largest_exponent, CALIBRATION_BOARDS)
    expected = FoldedGraph(exact).answer(boards).probabilities

    def error(evaluator: GraphEvaluator) -> float:
        answers = FoldedGraph(graph(evaluator)).answer(boards)
        return float(np.abs(answers.probabilities - expected).mean())

    yield "fp32", exact.SerializeToString()
    assert source.int8 is not None
    calibrated = source.int8(positions(source.description, boards, 8), error)
    yield "int8", graph(calibrated).SerializeToString()


if __name__ == "__main__":
    main()
