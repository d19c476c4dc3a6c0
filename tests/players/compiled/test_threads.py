"""Boards are spread over threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_players.compiled.threads import numba_threads, parallel_for_each, spread

needs_two_threads = pytest.mark.skipif(numba_threads() < 2, reason="needs two threads")


@needs_two_threads
def test_two_boards_are_searched_at_the_same_time() -> None:
    meeting = threading.Barrier(2)

    def meet(boards: NDArray[np.uint64], result: NDArray[np.uint64]) -> None:
        result[:] = boards + np.uint64(1)
        meeting.wait(timeout=30)

    boards, result = np.arange(2, dtype=np.uint64), np.zeros(2, np.uint64)
    spread(meet, boards, result)
    assert result.tolist() == [1, 2]


@needs_two_threads
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_exception_no_part_begins_and_running_parts_end(error: type[BaseException]) -> None:
    """The second part continues after the first has failed; seconds of work are left then."""
    both, failing, ended = threading.Barrier(2), threading.Event(), list[int]()

    def fill(number: int) -> None:
        if number < 2:
            both.wait(timeout=30)
        if number == 0:
            failing.set()
            raise error
        assert failing.wait(30)
        time.sleep(0.05)  # stands for the work of a part
        ended.append(number)

    with pytest.raises(error):
        parallel_for_each(fill, 200, 2)
    assert 1 in ended
    assert len(ended) < 199
    begun = len(ended)
    parallel_for_each(lambda _: None, 2, 2)
    assert len(ended) == begun


FORK = """
import os
import numpy as np
from octofold_players.compiled.threads import spread

def fill(boards, result):
    result[:] = boards

boards, result = np.arange(1, 9, dtype=np.uint64), np.zeros(8, np.uint64)
spread(fill, boards, result)
child = os.fork()
result[:] = 0
spread(fill, boards, result)
assert result.tolist() == boards.tolist()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


@needs_two_threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    ended = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
