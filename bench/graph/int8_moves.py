"""Compares this CPU's int8 arithmetic with exact arithmetic by the number of moves that differ in games.

    python bench/graph/int8_moves.py --model flagship --boards 10000

A CPU without VNNI adds two int8 products in 16 bits, which can saturate. Without optimizations, onnxruntime
multiplies the same int8 weights in float32, which cannot saturate.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from octofold_game.contract.model import read_card
from octofold_game.episodes import Episodes
from octofold_game.system.processors import cpu_name
from octofold_server.backends.backend import Layout
from octofold_server.backends.onnx_backend import onnx_lanes

sys.path.append(str(Path(__file__).parents[1]))  # contains harness.py

from harness import newest_version, report

GAMES = 64


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--models", type=Path, default=Path("models"), help="model repository (default: %(default)s)"
    )
    parser.add_argument(
        "--model", nargs="+", default=["flagship"], help="models to compare (default: %(default)s)"
    )
    parser.add_argument("--boards", type=int, default=10_000, help="boards per model (default: %(default)s)")
    options = parser.parse_args()
    figures = {name: compare(options.models, name, options.boards) for name in options.model}
    rows = [(name, f"{boards:,}", differ) for name, (boards, differ) in figures.items()]
    title = f"int8 and exact arithmetic, {cpu_name()}"
    report(title, ["model", "boards", "moves that differ"], rows, differing=figures)


def compare(models: Path, name: str, wanted: int) -> tuple[int, int]:
    """Return how many boards of the model's own games were compared, and on how many the moves differ."""
    folder = newest_version(models, name)
    card = read_card(folder)
    model = (folder / card.precisions["int8"].file).read_bytes()
    (lane,) = onnx_lanes(model, Layout("cpu", GAMES, lanes=1))
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    exact = onnxruntime.InferenceSession(model, plain)
    episodes = Episodes(1, range(GAMES), card.largest_exponent)
    compared, differing, begun, step = 0, 0, GAMES, 0
    while compared < wanted:
        boards, moves = episodes.boards, lane.run(episodes.boards).moves
        if step % 16 == 0:  # neighboring boards are similar
            compared += len(boards)
            differing += int(np.sum(exact.run(["move"], {"boards": boards})[0] != moves))
        step += 1
        ended = len(episodes.step(moves))
        episodes.start(range(begun, begun + ended))
        begun += ended
    return compared, differing


if __name__ == "__main__":
    main()
