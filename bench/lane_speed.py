"""Measures the boards per second of a model's lanes, in a loop without a server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from octofold_server.backends.backend import Backend


def boards_per_second(lanes: Sequence[Backend], boards: NDArray[np.uint8], seconds: float) -> float:
    """Return the boards per second of all lanes together while each lane runs `boards` [N, 16] repeatedly.

    Raises:
        BackendError: a lane failed.
    """
    begin = time.perf_counter()

    def run(lane: Backend) -> int:
        batches = 0
        while time.perf_counter() < begin + seconds:
            lane.run(boards)
            batches += 1
        return batches

    with ThreadPoolExecutor(len(lanes)) as pool:
        batches = sum(pool.map(run, lanes))
    return batches * len(boards) / (time.perf_counter() - begin)
