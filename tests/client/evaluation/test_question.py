"""What an interval of the ratio of two averages answers."""

from fractions import Fraction

import numpy as np
import pytest
from octofold_client.evaluation.question import Question
from octofold_client.evaluation.sequential import FIRST_LOOK, margin, ratio_interval

TWO_PERCENT = Fraction(2, 100)


@pytest.mark.parametrize(
    ("ratio", "no_worse", "equal"),
    [
        ((0.985, 1.01), True, True),
        ((0.985, 1.30), True, None),
        ((1.10, 1.30), True, False),
        ((0.970, 1.01), None, None),
        ((0.900, 0.97), False, False),
        ((0.980, 1 / 0.98), True, True),
        (None, None, None),
    ],
)
def test_only_an_interval_on_one_side_of_the_margin_answers(
    ratio: tuple[float, float] | None, no_worse: bool | None, equal: bool | None
) -> None:
    assert Question(TWO_PERCENT).answer(ratio) is no_worse
    assert Question(TWO_PERCENT, equal=True).answer(ratio) is equal


def test_equality_is_the_same_question_from_either_side() -> None:
    random = np.random.default_rng(1)
    first, second = random.exponential(1.0, (2, 2_000)) + 3
    one, other = ratio_interval(first, second), ratio_interval(second, first)
    assert one is not None
    assert other is not None
    assert (1 / one[1], 1 / one[0]) == pytest.approx(other)
    question = Question(Fraction(5, 100), equal=True)
    assert question.answer(one) is question.answer(other) is True


def test_the_ratio_interval_holds_the_ratios_that_the_differences_do_not_exclude() -> None:
    random = np.random.default_rng(2)
    first, second = random.gamma(2.0, 10_000, (2, 400))
    for limit in ratio_interval(first, second) or ():
        differences = second - limit * first
        assert abs(differences.mean()) == pytest.approx(float(margin(400, differences.std(ddof=1))))


def test_a_ratio_needs_games_and_an_average_that_is_surely_not_zero() -> None:
    assert ratio_interval(np.ones(FIRST_LOOK - 1), np.ones(FIRST_LOOK - 1)) is None
    assert ratio_interval(np.zeros(200), np.ones(200)) is None
    assert ratio_interval(np.tile([-1.0, 1.0], 100), np.ones(200)) is None


def test_players_whose_scores_are_proportional_have_an_exact_ratio() -> None:
    scores = np.random.default_rng(3).integers(100, 10**6, 300)
    assert ratio_interval(scores, 2 * scores) == pytest.approx((2.0, 2.0))
