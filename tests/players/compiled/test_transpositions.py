"""Searches that share a transposition table have different numbers."""

from __future__ import annotations

import numpy as np
import pytest
from octofold_players.compiled import transpositions
from octofold_players.compiled.transpositions import Transpositions


def test_search_numbers_restart_with_an_empty_table_when_they_run_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transpositions, "MOST_SEARCHES", 10)
    memory = Transpositions(4, np.dtype([("tag", np.uint32)]))
    assert [memory.reserve_numbers(4), memory.reserve_numbers(6)] == [1, 5]
    memory.table["tag"] = 9
    assert memory.reserve_numbers(1) == 1
    assert len(memory.table) == 4
    assert not memory.table["tag"].any()
