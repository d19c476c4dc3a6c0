"""Measures a variant without a server: its answers, its speed and the latency of a single board.

Every function runs in its own process, so its arguments must be picklable.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from lane_speed import boards_per_second
from numpy.typing import NDArray
from octofold_client.loadtest.boards import played_boards
from octofold_game.contract.model import GraphFile, Precision
from octofold_game.rules import legal_moves
from octofold_server.backends.backend import Backend, Layout
from octofold_server.backends.onnx_backend import OnnxBackend, batch_sizes, onnx_lanes
from octofold_server.backends.onnx_session import new_session
from octofold_server.config.options import Config
from octofold_server.models.layouts import choose_layout
from octofold_server.models.repository import (
    VersionFolder,
    read_card,
    read_model,
    read_tensors,
)

LOWEST_AGREEMENT = {"fp32": 0.999, "fp16": 0.995, "int8": 0.95}
"""Minimum share of moves that agree with fp32 on the CPU, by precision. Rounding decides near ties. The limit
for int8 is lower than at export, because these boards come from another player's games."""


CHECKED_BATCH = 1024
LONE_BOARDS = 300
EMPTY = 0.25
"""Approximate share of empty cells on random boards."""

Boards = NDArray[np.uint8]
Figures = dict[str, float]
"""Figures keyed by name, for example "batch 64: boards/s". Names with the same text before the colon form a
group."""


class WrongAnswers(Exception):
    """A variant agrees with fp32 on the CPU on too few moves."""


@dataclass(frozen=True)
class Variant:
    """One precision of a model version, as a device runs it."""

    name: str
    precision: Precision

    def layout(self, device: str, max_batch_size: int) -> Layout:
        """Return the lanes, threads and batch sizes that the server would choose on the device."""
        return choose_layout(Config(max_batch_size=max_batch_size), device, self.precision)

    def flags(self, device: str) -> tuple[str, ...]:
        """Return the flags of octofold-serve for this variant."""
        return ("--device", device, "--precision", self.precision)


def agreement(
    version: VersionFolder, variant: Variant, device: str, boards: int, batch: int, work: Path
) -> Figures:
    """Return the shares of moves that agree with fp32 on the CPU, on boards of games and on random boards.

    Batches have every size to which the server pads, and one board less.

    Raises:
        WrongAnswers: the share on boards of games is too small.
    """
    samples = {"boards of games": played_boards(15, boards), "random boards": random_cells(boards)}
    batch = min(batch, CHECKED_BATCH)
    lanes = warm_lanes(version, variant, variant.layout(device, batch))
    sizes = sorted({max(1, size - less) for size in batch_sizes(batch) for less in (0, 1)})
    found = {}
    for kind, sample in samples.items():
        exact = _exact_moves(version, sample, work / f"{version.name}, {kind}.npy")
        moves = np.concatenate([moves_of(lanes[0], part, batch) for part in np.array_split(sample, 3)])
        found[f"{kind}: agreement"] = float(np.mean(moves == exact))
        small = [np.mean(moves_of(lanes[0], sample[: 8 * size], size) == exact[: 8 * size]) for size in sizes]
        found[f"{kind}: lowest of all batch sizes"] = float(min(small))
    share, lowest = found["boards of games: agreement"], LOWEST_AGREEMENT[variant.precision]
    if share < lowest:
        raise WrongAnswers(f"{lowest:.1%} of the moves must agree with fp32 on the CPU, got {share:.2%}")
    return found


def speed(
    version: VersionFolder, variant: Variant, device: str, batches: Sequence[int], seconds: float
) -> Figures:
    """Return boards per second by batch size, and p50 and p99 of a single board's latency in ms."""
    boards = np.resize(played_boards(15), (max(batches), 16))
    lanes = warm_lanes(version, variant, variant.layout(device, max(batches)))
    found = {f"batch {size}: boards/s": boards_per_second(lanes, boards[:size], seconds) for size in batches}
    times = []
    for board in boards[:LONE_BOARDS, None]:
        begin = time.perf_counter()
        lanes[0].run(board)
        times.append((time.perf_counter() - begin) * 1e3)
    p50, p99 = np.percentile(times, [50, 99])
    return {**found, "lone board: p50 ms": float(p50), "lone board: p99 ms": float(p99)}


def warm_lanes(version: VersionFolder, variant: Variant, layout: Layout) -> Sequence[Backend]:
    """Return lanes that have run every batch size.

    Unlike the server's lanes, they fail if CUDA graphs cannot be recorded.
    """
    file = precision_file(version, variant.precision)
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


def random_cells(count: int) -> Boards:
    """Return boards `[count, 16]` with random tiles up to 32768 and at least two legal moves."""
    random = np.random.default_rng(0)
    cells = random.integers(1, 16, (2 * count + 64, 16), np.uint8)
    cells[random.random(cells.shape) < EMPTY] = 0
    playable: Boards = cells[legal_moves(cells).sum(axis=1) > 1]
    return playable[:count]


def _exact_moves(version: VersionFolder, boards: Boards, kept: Path) -> NDArray[np.int8]:
    """Return the moves of fp32 on the CPU, computed once and stored in a file."""
    if not kept.exists():
        exact = Variant("exact", "fp32")
        lanes = warm_lanes(version, exact, exact.layout("cpu", 32))
        with ThreadPoolExecutor(len(lanes)) as threads:
            parts = np.array_split(boards, len(lanes))
            np.save(kept, np.concatenate(list(threads.map(partial(moves_of, batch=32), lanes, parts))))
    moves: NDArray[np.int8] = np.load(kept)
    return moves
