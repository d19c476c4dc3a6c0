"""The sequential decisions keep their promise: simulated, they are wrong no more often than they say."""

from fractions import Fraction

import pytest
from decisions import decide, league_errors, scores_like
from octofold_client.evaluation.question import Question
from octofold_client.evaluation.sequential import ERROR_RATE
from octofold_game.model import read_card
from support.shipped import newest

MODEL = newest("swift")
RUNS, GAMES = 400, 1_500
TEN_PERCENT = Fraction(10, 100)


@pytest.mark.parametrize("equal", [False, True])
def test_a_player_at_the_margin_passes_no_more_often_than_stated(equal: bool) -> None:
    question = Question(TEN_PERCENT, equal=equal)
    made = decide(question, scores_like(read_card(MODEL)), 0.9, RUNS, GAMES)
    assert made.share("yes") <= ERROR_RATE
    assert made.share("no") <= ERROR_RATE


def test_equal_players_pass_and_clearly_worse_ones_fail() -> None:
    draw = scores_like(read_card(MODEL))
    assert decide(Question(TEN_PERCENT), draw, 1.0, 100, 3_000).share("yes") > 0.9
    assert decide(Question(TEN_PERCENT), draw, 0.75, 100, 3_000).share("no") > 0.9
    assert decide(Question(TEN_PERCENT, equal=True), draw, 1.5, 100, 3_000).share("no") > 0.9


def test_a_league_of_equal_players_shows_a_difference_no_more_often_than_stated() -> None:
    corrected, plain = league_errors(scores_like(read_card(MODEL)), players=4, runs=150, games=100)
    assert corrected <= ERROR_RATE + 3 * (ERROR_RATE * (1 - ERROR_RATE) / 150) ** 0.5
    assert plain > 2 * ERROR_RATE
