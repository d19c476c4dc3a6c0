"""`bench/strength/luck.py` measures the remaining variance and the cost of computing luck."""

from pathlib import Path

import pytest
from support.benches import figures_of
from support.commands import octofold
from support.shipped import newest

pytestmark = pytest.mark.long  # plays games and compiles


def test_the_bench_measures_the_remaining_variance(tmp_path: Path) -> None:
    values = f"ntuple:{newest('ntuple')}"
    played = octofold("evaluate", "--player", values, "--games", "30", "--luck", "none", "--out", tmp_path)
    assert played.returncode == 0, played
    (player,) = figures_of("luck.py", tmp_path)["players"]
    assert player["games"] == 30
    assert 0.1 < player["left"] < 0.9
    assert player["seconds_a_game"] > 0
