"""The decisions keep their promise: simulated, they are wrong no more often than they say."""

from fractions import Fraction

import numpy as np
import pytest
from decisions import (
    LOOK_EVERY,
    Scores,
    decide,
    drawn_from,
    league_errors,
    losing_rarely,
    misses,
    pairs_of,
    scores_like,
)
from octofold_client.evaluation.question import Question
from octofold_client.evaluation.sequential import ERROR_RATE, FIRST_GAMES, Bets
from octofold_game.model import read_card
from support.shipped import newest

DRAW = scores_like(read_card(newest("swift")))
RUNS, GAMES = 300, 1_500
TEN, HALF = Fraction(10, 100), Fraction(1, 200)


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("alike", [0.0, 0.98, 1.0])
def test_a_player_at_the_margin_passes_no_more_often_than_stated(equal: bool, alike: float) -> None:
    made = decide(Question(TEN, equal=equal), pairs_of(DRAW, alike, failing=0.1), RUNS, GAMES)
    assert made.share("yes") <= ERROR_RATE
    assert made.share("no") <= ERROR_RATE


def test_players_that_fail_in_rare_games_do_not_pass_and_are_not_called_worse_if_they_are_not() -> None:
    assert decide(Question(HALF), pairs_of(DRAW, 1.0, failing=0.01), RUNS, GAMES).share("yes") <= ERROR_RATE
    assert decide(None, losing_rarely(0.01), RUNS, GAMES).share("no") <= ERROR_RATE


def test_equal_players_pass_and_clearly_worse_ones_fail() -> None:
    assert decide(Question(TEN), pairs_of(DRAW, 0.5), 100, 3_000).share("yes") > 0.9
    assert decide(Question(TEN), pairs_of(DRAW, 0.5, failing=0.3), 100, 3_000).share("no") > 0.9
    assert decide(None, pairs_of(DRAW, 0.5, failing=0.3), 100, 3_000).share("no") > 0.9


@pytest.mark.parametrize("equal", [False, True])
def test_the_simulation_decides_as_the_command_does(equal: bool) -> None:
    games, random = 600, np.random.default_rng(1)
    first, second = random.gamma(2.4, 84_000, (2, games))
    second = np.where(random.random(games) < 0.9, first, second)
    begun = 0

    def draw(_: np.random.Generator, shape: tuple[int, ...]) -> tuple[Scores, Scores]:
        nonlocal begun
        part = slice(begun, begun + int(np.prod(shape)))
        begun = part.stop
        return first[part].reshape(shape), second[part].reshape(shape)

    question = Question(TEN, equal=equal)
    made = decide(question, draw, 1, games)
    assert made.yes[0] > FIRST_GAMES + LOOK_EVERY

    def answer(number: int) -> bool | None:
        bets = Bets.of(first[:number], second[:number], (17, 17))
        assert bets is not None
        return question.answer(bets).yes

    assert answer(made.yes[0]) is True
    assert answer(made.yes[0] - LOOK_EVERY) is None


def test_a_league_of_equal_players_shows_a_difference_no_more_often_than_stated() -> None:
    corrected, plain = league_errors(DRAW, players=4, runs=100, games=100)
    assert corrected <= ERROR_RATE + 3 * (ERROR_RATE * (1 - ERROR_RATE) / 100) ** 0.5
    assert plain > 2 * ERROR_RATE


def test_intervals_for_a_fixed_number_of_games_miss_as_rarely_as_they_say() -> None:
    pool = np.random.default_rng(1).gamma(2.4, 84_000, 100_000)
    assert max(misses(drawn_from(pool), games=10, runs=500)) <= 1.6 * ERROR_RATE
