"""Two players on the same games: the average difference, its interval and the sentence."""

import re

import pytest
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.comparison import Comparison


def test_only_games_that_both_have_count() -> None:
    comparison = Comparison.of("A", {0: 10, 1: 20, 5: 7}, "B", {1: 24, 0: 16, 9: 1})
    assert comparison.games == 2
    assert comparison.difference == 5
    assert comparison.won_by_second == 1.0
    with pytest.raises(EvaluationError, match="no games in common"):
        Comparison.of("A", {1: 1}, "B", {2: 1})


def test_an_interval_around_zero_decides_nothing_and_says_so() -> None:
    comparison = Comparison.of("A", dict(enumerate([10, 20, 30])), "B", dict(enumerate([30, 20, 11])))
    assert not comparison.decided
    assert re.match(r"No significant difference yet: [AB] \+0 \(95% interval -", comparison.sentence)


def test_the_better_one_is_the_subject_whichever_side_it_is() -> None:
    weak, strong = {game: 100 + game % 7 for game in range(50)}, dict.fromkeys(range(50), 200)
    one = Comparison.of("weak", weak, "strong", strong)
    other = Comparison.of("strong", strong, "weak", weak)
    for comparison in (one, other):
        assert comparison.sentence == (
            "strong scores 97 more on average (95% interval 96 to 98); 50 games each."
        )
