"""The sequential decisions keep their promise: simulated, they are wrong no more often than they say."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from octofold_client.evaluation.sequential import ERROR_RATE
from support.shipped import newest

ROOT = Path(__file__).parents[2]
RUNS = 400


@pytest.fixture(scope="module")
def simulated() -> dict[str, Any]:
    """What `bench/decisions.py` found."""
    command = [sys.executable, str(ROOT / "bench" / "decisions.py"), "--model", str(newest("swift"))]
    done = subprocess.run(
        [*command, "--runs", str(RUNS), "--games", "3000"], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def share(percent: str) -> float:
    return float(percent.removesuffix("%")) / 100


def test_a_player_at_the_margin_passes_and_fails_no_more_often_than_stated(simulated: dict[str, Any]) -> None:
    at_the_margin = [row for row in simulated["outcomes"] if row[1] in ("90%", "95%", "98%")]
    assert len(at_the_margin) == 6  # three margins, worse and equal
    for _question, _ratio, yes, no, _games in at_the_margin:
        assert share(yes) <= ERROR_RATE
        assert share(no) <= ERROR_RATE


def test_equal_players_pass_a_wide_margin_and_clearly_worse_ones_fail(simulated: dict[str, Any]) -> None:
    wide = {(row[0], row[1]): row for row in simulated["outcomes"] if row[0].endswith("10%")}
    for question in ("--no-worse-than 10%", "--equal-within 10%"):
        assert share(wide[question, "100%"][2]) > 0.9
        assert share(wide[question, "70%"][3]) > 0.9


def test_a_league_of_equal_players_shows_a_difference_no_more_often_than_stated(
    simulated: dict[str, Any],
) -> None:
    league = simulated["league"]
    assert league["wrong"] <= ERROR_RATE + 3 * (ERROR_RATE * (1 - ERROR_RATE) / league["runs"]) ** 0.5
    assert league["uncorrected"] > 2 * ERROR_RATE
