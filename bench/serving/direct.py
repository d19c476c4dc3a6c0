"""Measures an exported graph in onnxruntime alone, as the reference for the figures of the server.

There are two layouts: one session that uses all cores, and one single-threaded session that one thread per
core calls.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from octofold_game.contract.graph import BOARDS
from octofold_game.contract.model import GRAPH_FILES, Precision

BATCHES = (1, 8, 16, 64)
PRECISIONS: tuple[Precision, ...] = ("fp32", "int8")


def direct_measures(
    version: Path, boards: NDArray[np.uint8], seconds: float
) -> dict[str, Callable[[], float]]:
    """Return a measure of boards per second for each precision of the version, layout and batch size.

    Args:
        version: folder of the model version.
        boards: `[M, 16]`, used in turn.
        seconds: how long one measure runs.
    """
    cores = len(os.sched_getaffinity(0))
    measures: dict[str, Callable[[], float]] = {}
    offered = [precision for precision in PRECISIONS if (version / GRAPH_FILES[precision]).exists()]
    for precision in offered:
        for threads in sorted({1, cores}):
            session = _session(version / GRAPH_FILES[precision], threads)
            layout, callers = ("one lane a core", cores) if threads == 1 else ("all cores", 1)
            for batch in BATCHES:
                measures[f"direct {precision}, {layout}, batch {batch}"] = partial(
                    _direct, session, callers, boards, batch, seconds
                )
    return measures


def direct_one_caller(version: Path, boards: NDArray[np.uint8], seconds: float) -> float:
    """Return calls per second of one caller with one board, in a single-threaded int8 session."""
    return _direct(_session(version / GRAPH_FILES["int8"], 1), 1, boards, 1, seconds)


def best_direct(found: Mapping[str, float], precision: str) -> float:
    """Return the best median of `direct_measures` with a precision, or 0 without this precision."""
    return max(
        (value for name, value in found.items() if name.startswith(f"direct {precision}")), default=0.0
    )


def _session(file: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0" if threads == 1 else "1")
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def _direct(
    session: onnxruntime.InferenceSession, callers: int, boards: NDArray[np.uint8], batch: int, seconds: float
) -> float:
    done = [0] * callers
    session.run(None, {BOARDS.name: boards[:batch]})
    end = time.perf_counter() + seconds

    def run(caller: int) -> None:
        while time.perf_counter() < end:
            start = done[caller] % (len(boards) - batch)
            session.run(None, {BOARDS.name: boards[start : start + batch]})
            done[caller] += batch

    start = time.perf_counter()
    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(run, range(callers)))
    return sum(done) / (time.perf_counter() - start)
