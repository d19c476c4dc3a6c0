"""Compares a model's graph for moves alone with its whole graph on a CPU: moves, and CPU time of one lane.

    python bench/graph/moves_alone.py --model flagship
    python bench/graph/moves_alone.py --model flagship --precision fp16 --rounds 0    # the moves only
    python bench/graph/moves_alone.py --model flagship --boards 10000 --exact         # int8 and exact sums

Plays whole games, runs both graphs on every board, and counts the boards on which the moves differ. It counts
separately the boards on which the whole graph makes the same move in batches of every size. Then it measures
both graphs in turns on boards from these games, in batches of several sizes.

With --exact, it compares this CPU's int8 arithmetic with exact arithmetic. A CPU without VNNI adds two int8
products in 16 bits, which can saturate. Without optimizations, onnxruntime multiplies the same int8 weights
in float32, which cannot saturate.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from octofold_game.contract.graph import BOARDS, MOVE
from octofold_game.contract.model import PRECISIONS, read_card
from octofold_game.episodes import Episodes
from octofold_game.system.processors import cpu_name
from octofold_server.backends.backend import EVERYTHING, Layout, RequestedOutputs
from octofold_server.backends.onnx_backend import OnnxBackend, onnx_lanes

sys.path.append(str(Path(__file__).parents[1]))  # contains harness.py

from harness import interleave, medians, new_parser, newest_version, report

BATCHES = (1, 4, 8, 16, 32, 64, 128)
TIMED_BOARDS = 512
KEPT_STEPS = 16
"""One step of the games in so many gives boards to time, or to compare with exact sums. The boards of
neighboring steps are similar."""


def main() -> None:
    """Run the benchmark."""
    options = _options()
    folder = newest_version(options.models, options.model)
    card = read_card(folder)
    listed = card.precisions[options.precision]
    model = (folder / listed.file).read_bytes()
    moves = None if listed.moves is None else (folder / listed.moves.file).read_bytes()
    (lane,) = onnx_lanes(model, Layout("cpu", max(BATCHES), lanes=1), moves=moves)
    lane.warm_up()
    if options.exact:
        compared, differing = _inexact(lane, model, options.boards, card.largest_exponent)
        title = f"{options.model}, {options.precision} and exact arithmetic, {cpu_name()}"
        columns = ["boards", "moves that differ"]
        report(title, columns, [(compared, differing)], boards=compared, differing=differing)
        return
    if moves is None:
        sys.exit(f"{options.model} has no graph for moves alone")
    boards, differing, wrong = _played(lane, options.boards, card.largest_exponent)

    ratios = {}
    rows = []
    for size in BATCHES if options.rounds else ():
        measures = {
            name: lambda size=size, outputs=outputs: _microseconds(lane, boards, size, outputs)
            for name, outputs in (("whole", EVERYTHING), ("alone", RequestedOutputs()))
        }
        found = medians(interleave(measures, options.rounds))
        ratios[size] = round(found["alone"] / found["whole"], 3)
        rows.append((f"batches of {size}", *(f"{found[name]:.1f}" for name in measures), ratios[size]))
    report(
        f"moves alone, {options.model} {options.precision}: {differing} of {options.boards:,} moves differ, "
        f"{wrong} of them where the whole graph makes the same move at every batch size",
        ["us a board, median", "whole graph", "moves alone", "ratio"],
        rows,
        model=options.model,
        precision=options.precision,
        boards=options.boards,
        differing=differing,
        wrong=wrong,
        ratios=ratios,
    )


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__, model="flagship", rounds=9)
    parser.add_argument(
        "--precision",
        default="int8",
        choices=PRECISIONS,
        help="precision of both graphs (default: %(default)s)",
    )
    parser.add_argument(
        "--boards", type=int, default=100_000, help="boards to compare (default: %(default)s)"
    )
    parser.add_argument("--exact", action="store_true", help="compare the whole graph with exact arithmetic")
    return parser.parse_args()


def _steps(
    lane: OnnxBackend, games: int, largest_exponent: int, outputs: RequestedOutputs
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int8]]]:
    """Play `games` games at a time, without end. Yield the boards `[N, 16]` of each step and their moves."""
    episodes = Episodes(1, range(games), largest_exponent)
    begun = games
    while True:
        moves = lane.run(episodes.boards, outputs).moves
        yield episodes.boards, moves
        ended = len(episodes.step(moves))
        episodes.start(range(begun, begun + ended))
        begun += ended


def _inexact(lane: OnnxBackend, model: bytes, wanted: int, largest_exponent: int) -> tuple[int, int]:
    """Return how many boards of the model's own games were compared, and on how many the moves differ."""
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    exact = onnxruntime.InferenceSession(model, plain)
    compared, differing = 0, 0
    for boards, moves in islice(_steps(lane, 64, largest_exponent, EVERYTHING), 0, None, KEPT_STEPS):
        compared += len(boards)
        differing += int(np.sum(exact.run([MOVE.name], {BOARDS.name: boards})[0] != moves))
        if compared >= wanted:
            break
    return compared, differing


def _played(lane: OnnxBackend, boards: int, largest_exponent: int) -> tuple[NDArray[np.uint8], int, int]:
    """Play games and compare the moves of both graphs.

    Returns boards from all stages of games in random order, the number of boards on which the moves differed,
    and the number of these on which the whole graph makes the same move in every batch size.
    """
    seen, differing, wrong, kept = 0, 0, 0, []
    for step, (played, moves) in enumerate(_steps(lane, 16, largest_exponent, RequestedOutputs()), 1):
        for board in played[moves != lane.run(played).moves]:
            differing += 1
            wrong += len({int(lane.run(np.resize(board, (size, 16))).moves[0]) for size in BATCHES}) == 1
        if step % KEPT_STEPS == 0:
            kept.append(played)
        seen += len(moves)
        if seen >= boards:
            break
    return np.random.default_rng(1).permutation(np.concatenate(kept)), differing, wrong


def _microseconds(
    lane: OnnxBackend, boards: NDArray[np.uint8], size: int, outputs: RequestedOutputs
) -> float:
    """Return the CPU time per board in batches of `size`, in microseconds."""
    count = min(max(size, TIMED_BOARDS), len(boards)) // size * size
    begin = time.thread_time()
    for start in range(0, count, size):
        lane.run(boards[start : start + size], outputs)
    return (time.thread_time() - begin) / count * 1e6


if __name__ == "__main__":
    main()
