"""Bets answer questions, and answers show limits of the ratio."""

from fractions import Fraction

import numpy as np
import pytest
from octofold_client.evaluation.question import BETTER, EQUAL, NO_WORSE, Question
from octofold_client.evaluation.sequential import BettingTest

FIVE, TEN = Fraction(5, 100), Fraction(10, 100)


def played(ratio: float, games: int = 1_500, seed: int = 1) -> BettingTest:
    """Return bets on two players: in 95% of the games, the second scores `ratio` times the first's score."""
    random = np.random.default_rng(seed)
    first, other = random.gamma(2.4, 84_000, (2, games))
    second = ratio * np.where(random.random(games) < 0.95, first, other)
    found = BettingTest.of(first, second, (17, 17), 800_000)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("ratio", "no_worse", "equal", "better"),
    [
        (1.0, True, True, False),
        (1.3, True, False, True),
        (0.99, True, True, False),
        (0.8, False, False, False),
        (0.95, None, None, False),
        (1.05, True, None, None),
    ],
)
def test_the_bets_answer_clear_questions_and_leave_close_ones_open(
    ratio: float, no_worse: bool | None, equal: bool | None, better: bool | None
) -> None:
    bets = played(ratio)
    assert Question(FIVE).answer(bets).yes is no_worse
    assert Question(FIVE, EQUAL).answer(bets).yes is equal
    assert Question(FIVE, BETTER).answer(bets).yes is better


def test_a_margin_of_zero_asks_whether_the_second_player_is_better() -> None:
    question = Question(Fraction(0), BETTER)
    assert [question.answer(played(ratio)).yes for ratio in (1.1, 0.9, 1.0)] == [True, False, None]
    assert question.sentence("A", "B", True) == "B is better than A."
    assert question.flag == "--better-than 0%"


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("games", [150, 400, 1_500])
def test_the_shown_limits_never_contradict_the_answer(equal: bool, games: int) -> None:
    question = Question(TEN, EQUAL if equal else NO_WORSE)
    least, most = 0.9, 1 / 0.9 if equal else np.inf
    for seed, ratio in enumerate(np.linspace(0.7, 1.3, 25)):
        found = question.answer(played(float(ratio), games, seed))
        low, high = found.ratio_interval
        within, apart = least <= low and high <= most, high < least or most < low
        assert found.yes is (True if within else False if apart else None)
