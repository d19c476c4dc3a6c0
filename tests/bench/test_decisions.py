"""Simulated comparisons decide wrongly no more often than promised."""

from typing import Any

import pytest
from octofold_client.evaluation.sequential import ERROR_RATE
from support.benches import figures_of
from support.shipped import newest

pytestmark = pytest.mark.long  # thousands of simulated evaluations

RIGHT = {"yes": ("equal", "10% better"), "no": ("worse", "33% worse", "twice as strong")}
"""For each answer, the second players for which it is right."""
NOT_PROMISED = ("becomes 10% better, was 10% worse", "A has giants in 1%")
"""Games for which the test promises nothing: of a player that changes, and with scores above the cap."""


@pytest.fixture(scope="module")
def simulated() -> dict[str, Any]:
    """The JSON result of `bench/strength/decisions.py`."""
    return figures_of("decisions.py", "--model", newest("swift"), "--runs", "200", "--games", "2000")


def test_no_answer_is_wrong_more_often_than_stated(simulated: dict[str, Any]) -> None:
    wrong = {
        (row["games"], row["question"], row["second"], answer): row[answer]
        for row in simulated["outcomes"]
        for answer in ("yes", "no")
        if row["second"] not in RIGHT[answer] and row["games"] not in NOT_PROMISED
    }
    assert len(wrong) > 60
    assert {kind for kind, *_ in wrong} >= {"independent, bad values", "independent, luck drifts"}
    assert all(share <= ERROR_RATE for share in wrong.values()), wrong


def test_equal_players_pass_with_a_wide_margin(simulated: dict[str, Any]) -> None:
    (row,) = (
        row
        for row in simulated["outcomes"]
        if (row["games"], row["question"], row["second"]) == ("half alike", "--no-worse-than 10%", "equal")
    )
    assert row["yes"] > 0.9


def test_a_league_of_equal_players_shows_a_difference_no_more_often_than_stated(
    simulated: dict[str, Any],
) -> None:
    league = simulated["league"]
    assert league["wrong"] <= ERROR_RATE + 3 * (ERROR_RATE * (1 - ERROR_RATE) / league["runs"]) ** 0.5
    assert league["uncorrected"] > 2 * ERROR_RATE
