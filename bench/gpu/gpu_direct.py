"""Measures a precision of a model without a server: its answers, its speed and the latency of a single board.

Every function runs in its own process, so its arguments must be picklable.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from harness import boards_per_second, milliseconds
from numpy.typing import NDArray
from octofold_client.loadtest.boards import played_boards
from octofold_game.contract.model import GraphFile, Precision
from octofold_server.backends.backend import Backend
from octofold_server.backends.onnx_backend import OnnxBackend, onnx_lanes
from octofold_server.backends.onnx_session import new_session
from octofold_server.config.options import Config
from octofold_server.models.layouts import choose_layout
from octofold_server.models.repository import VersionFolder, read_card, read_model, read_tensors

LOWEST_AGREEMENT = {"fp32": 0.999, "fp16": 0.995, "int8": 0.95}
"""Minimum share of moves that agree with fp32 on the CPU, by precision. Rounding decides near ties. The limit
for int8 is lower than at export, because these boards come from another player's games."""

CHECKED_BATCH = 1024
LONE_BOARDS = 300

Boards = NDArray[np.uint8]
Figures = dict[str, float]
"""Figures keyed by name, for example "batch 64: boards/s". Names with the same text before the colon form a
group."""


class WrongAnswers(Exception):
    """Too few moves agree with fp32 on the CPU."""


def agreement(
    version: VersionFolder, precision: Precision, device: str, boards: int, batch: int, work: Path
) -> Figures:
    """Return the share of moves that agree with fp32 on the CPU, on boards of games.

    Raises:
        WrongAnswers: the share is too small.
    """
    sample = played_boards(15, boards)
    batch = min(batch, CHECKED_BATCH)
    lanes = warm_lanes(version, precision, device, batch)
    exact = _exact_moves(version, sample, work / f"{version.name}.npy")
    moves = np.concatenate([moves_of(lanes[0], part, batch) for part in np.array_split(sample, 3)])
    share, lowest = float(np.mean(moves == exact)), LOWEST_AGREEMENT[precision]
    if share < lowest:
        raise WrongAnswers(f"{lowest:.1%} of the moves must agree with fp32 on the CPU, got {share:.2%}")
    return {"boards of games: agreement": share}


def speed(
    version: VersionFolder, precision: Precision, device: str, batches: Sequence[int], seconds: float
) -> Figures:
    """Return boards per second by batch size, and p50 and p99 of a single board's latency in ms."""
    boards = np.resize(played_boards(15), (max(batches), 16))
    lanes = warm_lanes(version, precision, device, max(batches))
    found = {f"batch {size}: boards/s": boards_per_second(lanes, boards[:size], seconds) for size in batches}
    lone = [partial(lanes[0].run, board) for board in boards[:LONE_BOARDS, None]]
    p50, p99 = np.percentile(milliseconds(lone), [50, 99])
    return {**found, "lone board: p50 ms": float(p50), "lone board: p99 ms": float(p99)}


def warm_lanes(
    version: VersionFolder, precision: Precision, device: str, max_batch_size: int
) -> Sequence[Backend]:
    """Return lanes that have run every batch size, in the layout that the server would choose.

    Unlike the server's lanes, they fail if CUDA graphs cannot be recorded.
    """
    layout = choose_layout(Config(max_batch_size=max_batch_size), device, precision)
    file = precision_file(version, precision)
    model, tensors = read_model(version.path, file), read_tensors(version.path, file)
    if layout.device == "cuda":
        lanes: Sequence[Backend] = [
            OnnxBackend(new_session(model, layout, tensors, capture=True), layout)
            for _ in range(layout.lanes)
        ]
    else:
        lanes = onnx_lanes(model, layout, tensors)
    for lane in lanes:
        lane.warm_up()
    return lanes


def precision_file(version: VersionFolder, precision: Precision) -> GraphFile:
    """Return the file of a precision. Raises `LookupError` if the version has none."""
    precisions = read_card(version)[0].precisions
    if precision not in precisions:
        raise LookupError(f"{version.name}/{version.version} has no {precision}")
    return precisions[precision]


def moves_of(lane: Backend, boards: Boards, batch: int) -> NDArray[np.int8]:
    """Return the moves `[N]` for boards `[N, 16]`, `batch` at a time."""
    firsts = range(0, len(boards), batch)
    return np.concatenate([lane.run(boards[first : first + batch]).moves for first in firsts])


def _exact_moves(version: VersionFolder, boards: Boards, kept: Path) -> NDArray[np.int8]:
    """Return the moves of fp32 on the CPU, computed once and stored in a file."""
    if not kept.exists():
        lanes = warm_lanes(version, "fp32", "cpu", 32)
        with ThreadPoolExecutor(len(lanes)) as threads:
            parts = np.array_split(boards, len(lanes))
            np.save(kept, np.concatenate(list(threads.map(partial(moves_of, batch=32), lanes, parts))))
    moves: NDArray[np.int8] = np.load(kept)
    return moves
