"""Spreads boards over threads, for functions that numba has compiled to run without Python's global lock.

numba's own parallel loops have two limits: only one thread of a program may run them at a time, and they use
all cores even for a single board.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache

import numba
import numpy as np
from numpy.typing import NDArray
from octofold_game.system.processors import usable_cores

_PARTS_A_THREAD = 4
_PART_SECONDS = 0.0015
"""Minimum duration of the work for a thread, in seconds."""


def part_count() -> int:
    """Return the number of parts to split work into: several per thread, since some boards take longer."""
    return _PARTS_A_THREAD * numba_threads()


def spread(
    fill: Callable[..., None], boards: NDArray[np.uint64], result: NDArray[np.generic], *options: object
) -> None:
    """Call `fill(boards, result, *options)` in parallel, on the threads that numba uses.

    Args:
        fill: function that writes a row of its `result` for each of its `boards`.
        boards: `[N] uint64`, which are split into parts.
        result: `[N, ...]`, which is split like `boards`.
        options: further arguments of every call.
    """
    spread_parts(
        lambda start, end: fill(boards[start:end], result[start:end], *options), len(boards), numba_threads()
    )


def spread_parts(
    fill: Callable[[int, int], None],
    count: int,
    threads: int,
    seconds: float = math.inf,
    most: float = math.inf,
) -> None:
    """Split `range(count)` into parts and call `fill(start, end)` for each part on several threads.

    The calls begin in the order of the parts.

    Args:
        fill: function that does the work of a part.
        count: size of the range; if it is 0, nothing is called.
        threads: the number of threads.
        seconds: estimated time of the whole work on one thread. Short work is split into fewer parts.
        most: maximum size of a part if several threads work.
    """
    if not count:
        return
    rounds = min(_PARTS_A_THREAD, max(1.0, seconds / _PART_SECONDS / threads))
    parts = min(max(int(rounds) * threads, math.ceil(count / most)), count)
    if threads == 1 or parts < 2:
        fill(0, count)
        return
    bounds = [part * count // parts for part in range(parts + 1)]
    parallel_for_each(lambda part: fill(bounds[part], bounds[part + 1]), parts, threads)


def parallel_for_each(fill: Callable[[int], None], count: int, threads: int | None = None) -> None:
    """Call `fill(n)` for every n below `count` in parallel, by default on as many threads as numba uses.

    The caller's thread works, too, because waking another thread takes longer than a short call. After an
    exception, no further call begins. The exception is raised when the running calls have ended.
    """
    threads = threads or numba_threads()
    numbers = iter(range(count))  # shared: a free thread takes the next number

    def work() -> None:
        try:
            for number in numbers:
                fill(number)
        finally:
            for _ in numbers:
                pass  # after an exception, no thread takes another number

    others = [_pool(threads).submit(work) for _ in range(min(threads, count) - 1)]
    try:
        work()
    finally:
        begun = [other for other in others if not other.cancel()]
        wait(begun)
    for other in begun:
        other.result()


def numba_threads() -> int:
    """Return the number of threads that numba uses, limited to the container's CPU quota."""
    return min(numba.get_num_threads(), _cores())


_cores = cache(usable_cores)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="octofold-players")


if hasattr(os, "register_at_fork"):  # because a forked process inherits the pools without their threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
