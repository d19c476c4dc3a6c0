"""How long boards take, by which the batcher decides what to divide."""

from __future__ import annotations

import pytest
from octofold_server.batching.statistics import Pace


def test_small_batches_count_little_beside_large_ones() -> None:
    pace = Pace()
    for _ in range(100):
        pace.add(256, 256 * 1e-5)
        for _ in range(5):
            pace.add(1, 2e-4)
    assert pace.seconds_per_board == pytest.approx(1.4e-5, rel=0.1)


def test_a_model_that_becomes_slow_is_noticed_within_some_batches() -> None:
    pace = Pace()
    assert pace.seconds_per_board == 0.001
    pace.add(64, 64 * 1e-5)
    assert pace.seconds_per_board < 1e-4
    for _ in range(20):
        pace.add(64, 64 * 1e-3)
    assert pace.seconds_per_board > 0.8e-3
