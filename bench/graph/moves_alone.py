"""Compares a model's graph for moves alone with its whole graph on a CPU: moves, and CPU time of one lane.

    python bench/graph/moves_alone.py --model flagship
    python bench/graph/moves_alone.py --model flagship --precision fp16 --rounds 0    # the moves only

Plays whole games, runs both graphs on every board, and counts the boards on which the moves differ. It counts
separately the boards on which the whole graph makes the same move in batches of every size. Then it measures
both graphs in turns on boards from these games, in batches of several sizes.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import PRECISIONS, read_card
from octofold_game.episodes import Episodes
from octofold_server.backends.backend import EVERYTHING, Layout, RequestedOutputs
from octofold_server.backends.onnx_backend import OnnxBackend, onnx_lanes

sys.path.append(str(Path(__file__).parents[1]))  # contains harness.py

from harness import interleave, medians, newest_version, report

BATCHES = (1, 4, 8, 16, 32, 64, 128)
TIMED_BOARDS = 512


def main() -> None:
    """Run the benchmark."""
    options = _options()
    folder = newest_version(options.models, options.model)
    card = read_card(folder)
    listed = card.precisions[options.precision]
    if listed.moves is None:
        sys.exit(f"{options.model} has no graph for moves alone")
    model, moves = ((folder / each.file).read_bytes() for each in (listed, listed.moves))
    (lane,) = onnx_lanes(model, Layout("cpu", max(BATCHES), lanes=1), moves=moves)
    lane.warm_up()
    boards, differing, wrong = _played(lane, options.games, options.boards, card.largest_exponent)

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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--models", type=Path, default=Path("models"), help="model repository (default: %(default)s)"
    )
    parser.add_argument("--model", default="flagship", help="model to compare (default: %(default)s)")
    parser.add_argument(
        "--precision",
        default="int8",
        choices=PRECISIONS,
        help="precision of both graphs (default: %(default)s)",
    )
    parser.add_argument(
        "--boards", type=int, default=100_000, help="boards to compare (default: %(default)s)"
    )
    parser.add_argument("--games", type=int, default=16, help="games at a time (default: %(default)s)")
    parser.add_argument(
        "--rounds",
        type=int,
        default=9,
        help="rounds of measurement; 0 compares only the moves (default: %(default)s)",
    )
    return parser.parse_args()


def _played(
    lane: OnnxBackend, games: int, boards: int, largest_exponent: int
) -> tuple[NDArray[np.uint8], int, int]:
    """Play games and compare the moves of both graphs.

    Returns boards from all stages of games in random order, the number of boards on which the moves differed,
    and the number of these on which the whole graph makes the same move in every batch size.
    """
    episodes = Episodes(1, range(games), largest_exponent)
    seen, differing, wrong, kept = 0, 0, 0, []
    begun = games
    while seen < boards:
        moves = lane.run(episodes.boards, RequestedOutputs()).moves
        for board in episodes.boards[moves != lane.run(episodes.boards).moves]:
            differing += 1
            wrong += len({int(lane.run(np.resize(board, (size, 16))).moves[0]) for size in BATCHES}) == 1
        seen += len(moves)
        if seen // games % 16 == 0:
            kept.append(episodes.boards)
        ended = len(episodes.step(moves))
        episodes.start(range(begun, begun + ended))
        begun += ended
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
