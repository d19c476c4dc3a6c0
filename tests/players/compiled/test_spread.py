"""Boards are spread over threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numba
import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_players.compiled.spread import spread

needs_two_threads = pytest.mark.skipif(numba.get_num_threads() < 2, reason="needs two threads")


@needs_two_threads
def test_two_boards_are_worked_on_at_the_same_time() -> None:
    meeting = threading.Barrier(2)

    def meet(boards: NDArray[np.uint64], result: NDArray[np.uint64]) -> None:
        result[:] = boards + np.uint64(1)
        meeting.wait(timeout=30)

    boards, result = np.arange(2, dtype=np.uint64), np.zeros(2, np.uint64)
    spread(meet, boards, result)
    assert result.tolist() == [1, 2]


FORK = """
import os
import numpy as np
from octofold_players.compiled.spread import spread

def fill(boards, result):
    result[:] = boards

boards, result = np.arange(1, 9, dtype=np.uint64), np.zeros(8, np.uint64)
spread(fill, boards, result)
child = os.fork()
result[:] = 0
spread(fill, boards, result)
print(result.tolist(), flush=True)
if child:
    os.waitpid(child, 0)
"""


@needs_two_threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    ended = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [str(list(range(1, 9)))] * 2
