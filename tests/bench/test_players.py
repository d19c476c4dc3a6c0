"""`bench/strength/players.py` plays the games that it reports."""

from pathlib import Path

import pytest
from support.benches import figures_of

pytestmark = pytest.mark.long


def test_games_end_with_the_requested_tile(tmp_path: Path) -> None:
    options = ("--player", "random", "--games", "8", "--until", "32", "--keep", tmp_path)
    row = figures_of("players.py", *options)["players"]["random"]
    assert [(each["tile"], each["games"]) for each in row["largest_tiles"]] == [(32, 8)]
    assert row["moves_per_cpu_second"] > 0
