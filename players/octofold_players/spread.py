"""Boards shared out among threads, for functions that numba compiles without the global lock.

numba's own parallel loops may be entered by one thread of a program only, and wait for all cores even for a
single board. It knows nothing about what is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numba
import numpy as np
from numpy.typing import NDArray

_PARTS_A_THREAD = 4
"""More parts than threads: boards differ in what they cost."""


def spread(
    fill: Callable[..., None], boards: NDArray[np.uint64], result: NDArray[np.generic], *options: object
) -> None:
    """`fill(boards, result, *options)`, which writes a row of `result` for each board, on all of numba's
    threads where there are boards enough.
    """
    threads = numba.get_num_threads()
    parts = threads * _PARTS_A_THREAD
    if threads == 1 or len(boards) < parts:
        fill(boards, result, *options)
        return
    bounds = [part * len(boards) // parts for part in range(parts + 1)]
    begun = [
        _pool(threads).submit(fill, boards[start:end], result[start:end], *options)
        for start, end in pairwise(bounds)
    ]
    for part in begun:
        part.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="octofold-players")
