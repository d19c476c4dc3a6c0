"""Bets are fair, and no game can break their limits."""

from fractions import Fraction
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from octofold_client.evaluation.luck import COEFFICIENTS, Luck
from octofold_client.evaluation.question import Question
from octofold_client.evaluation.sequential import (
    CAP_MULTIPLE,
    ERROR_RATE,
    BettingTest,
    Record,
    cap_of,
    fewest_games,
    greatest_score,
    growth,
    log_wealth,
)
from octofold_game.contract.results import FIRST_GAMES
from octofold_game.episodes import Episodes
from octofold_game.rules import afterstates

ANY = (17, 17)


def bets_on(first: ArrayLike, second: ArrayLike, capped: bool = True) -> BettingTest:
    found = BettingTest.of(first, second, ANY, cap_of([first]) if capped else None)
    assert found is not None
    return found


def test_the_greatest_score_is_that_of_the_board_with_one_tile_of_each_size() -> None:
    assert greatest_score(17) == sum((exponent - 1) << exponent for exponent in range(2, 18)) == 3_932_164
    # Up to tile 2048: seven cells can hold a 2048 each, and the other nine the tiles from 4 to 1024.
    assert greatest_score(10) == 7 * (10 << 11) + sum((exponent - 1) << exponent for exponent in range(2, 11))


@pytest.mark.parametrize("largest_exponent", [3, 4, 5, 6, 7])
def test_no_game_scores_more_than_the_greatest_score(largest_exponent: int) -> None:
    # A player that avoids merges keeps many equal tiles, which the bound must allow.
    episodes = Episodes(1, range(300), largest_exponent)
    best = 0
    while len(episodes.running):
        _, rewards, legal = afterstates(episodes.boards)
        finished = episodes.step(np.where(legal, rewards, 1 << 30).argmin(axis=1))
        best = max([best, *(episode.score for episode in finished)])
    assert 0 < best <= greatest_score(largest_exponent)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1.0, 100.0), min_size=1, max_size=200))
def test_wealth_never_becomes_negative(gains: list[float]) -> None:
    assert np.isfinite(growth(gains, 1.0, np.arange(len(gains)))).all()


def test_the_bets_are_fair() -> None:
    # All outcomes of twelve games that win 3 or lose 1 with an expected gain of 0.
    outcomes = np.arange(1 << 12)[:, None] >> np.arange(12) & 1
    gains = np.where(outcomes, 3.0, -1.0)
    stakes = Record.of(*np.zeros((2, len(gains), 0))).stakes(np.ones_like(gains), 1 + gains, 1, 0.1)
    assert (stakes[:, 10:] > 0).any()  # the stakes that are learned from earlier games are not all zero
    logs = [
        log_wealth(growth(*bet).sum(axis=-1)) for bet in zip(gains, np.ones_like(gains), stakes, strict=True)
    ]
    assert np.where(outcomes, 0.25, 0.75).prod(axis=1) @ np.exp(logs) == pytest.approx(1.0)


@pytest.mark.parametrize(("failing", "margin"), [(0.01, 0.005), (0.02, 0.019), (0.03, 0.029)])
def test_a_player_that_loses_everything_in_rare_games_does_not_pass(failing: float, margin: float) -> None:
    random = np.random.default_rng(1)
    passed = 0
    for _ in range(50):
        first = random.gamma(2.4, 84_000, 1_500)
        bets = bets_on(first, np.where(random.random(1_500) < failing, 0, first))
        assert bets.cap is not None
        stakes, _ = bets.stakes((margin, -margin))
        passed += bool((bets.wealth(1 - margin, stakes) >= -log(ERROR_RATE)).any())
    assert passed <= 2


def test_players_with_equal_games_pass_after_the_predicted_number_of_games_and_not_before() -> None:
    scores = np.full(2_000, 200_000.0)
    question = Question(Fraction(2, 100))
    needed = FIRST_GAMES + fewest_games(0.02)
    assert question.answer(bets_on(scores[:needed], scores[:needed])).yes
    assert question.answer(bets_on(scores[: int(0.97 * needed)], scores[: int(0.97 * needed)])).yes is None


def test_the_limits_are_where_the_bets_begin_to_reject() -> None:
    random = np.random.default_rng(3)
    bets = bets_on(*random.gamma(2.4, 84_000, (2, 700)))
    assert bets.cap is not None
    low, high = bets.ratio_limits(ERROR_RATE)
    assert low < bets.ratio < high
    refuted = -log(ERROR_RATE)
    more, less = bets.stakes((0.0, 0.0))
    assert bets.wealth(low, more)[-1] == pytest.approx(refuted, abs=1e-3)
    assert bets.wealth(high, less, more=False)[-1] == pytest.approx(refuted, abs=1e-3)
    below, above = bets.difference_limits(ERROR_RATE)
    assert below < bets.difference < above
    after = growth(bets.second - bets.first - below, bets.cap + below, more).cumsum(axis=-1)
    assert log_wealth(after)[-1] == pytest.approx(refuted, abs=1e-3)


def test_bets_without_luck_are_about_the_same_averages_and_decide_sooner() -> None:
    random = np.random.default_rng(8)
    base = random.gamma(40.0, 5_000, (2, 600))
    luck = random.choice([-1.0, 1.0], (2, 600)) * 100_000
    scores = base + luck
    ours, theirs = (
        Luck("values", None, 100_000.0, np.arange(600), each[:, None] * np.minimum(COEFFICIENTS, 1))
        for each in luck
    )
    question = Question(Fraction(5, 100))
    plain = BettingTest.of(scores[0], scores[1], ANY, cap_of(scores))
    adjusted = BettingTest.of(scores[0], scores[1], ANY, cap_of(scores), (ours, theirs), 0.05)
    assert plain is not None
    assert adjusted is not None
    begun = 30 - FIRST_GAMES  # luck is not removed before this game
    assert adjusted.first[:begun] == pytest.approx(scores[0, FIRST_GAMES:30])
    assert adjusted.first[begun:] == pytest.approx(base[0, 30:], abs=20_000)  # little luck is left
    assert adjusted.most_first[begun:] == pytest.approx(plain.most_first[begun:] + 150_000, abs=30_000)
    assert adjusted.worth == pytest.approx(9, rel=0.3)  # for only the games after game 30, it is 11
    assert question.answer(plain).yes is None
    assert question.answer(adjusted).yes


def test_the_coefficients_of_a_bet_depend_only_on_earlier_games() -> None:
    random = np.random.default_rng(9)
    scores = random.gamma(40.0, 5_000, (2, 500))
    taken = random.normal(size=(2, 500, 1)) * np.minimum(COEFFICIENTS, 1) * 30_000
    scores += taken[:, :, -1]

    def bets(taken: NDArray[np.float64]) -> BettingTest:
        ours, theirs = (Luck("values", None, 150_000.0, np.arange(500), each) for each in taken)
        found = BettingTest.of(scores[0], scores[1], ANY, cap_of(list(scores)), (ours, theirs), 0.05)
        assert found is not None
        return found

    changed = taken.copy()
    changed[:, 300:] = random.normal(size=(2, 200, 1)) * np.minimum(COEFFICIENTS, 1) * 30_000
    before, after = bets(taken), bets(changed)
    until = 300 - FIRST_GAMES
    assert (before.first[:until] == after.first[:until]).all()
    assert (before.stakes((0.05, -0.05))[0][:until] == after.stakes((0.05, -0.05))[0][:until]).all()
    by = before.first[until] - scores[0, 300], after.first[until] - scores[0, 300]
    assert by[0] / taken[0, 300, -1] == pytest.approx(by[1] / changed[0, 300, -1])


def test_the_bets_on_nearly_equal_players_remove_the_luck_of_both_or_of_neither() -> None:
    random = np.random.default_rng(10)
    luck = random.normal(size=(2, 800)) * 50_000
    scores = random.gamma(40.0, 5_000, (2, 800)) + luck
    alike = random.random(800) < 0.9
    scores[1, alike], luck[1, alike] = scores[0, alike], luck[0, alike]
    ours, theirs = (
        Luck("values", None, 150_000.0, np.arange(800), each[:, None] * np.minimum(COEFFICIENTS, 1))
        for each in luck
    )
    plain = BettingTest.of(scores[0], scores[1], ANY, cap_of(list(scores)))
    adjusted = BettingTest.of(scores[0], scores[1], ANY, cap_of(list(scores)), (ours, theirs), 0.02)
    assert plain is not None
    assert adjusted is not None
    assert ((adjusted.first == adjusted.second) == (plain.first == plain.second)).all()


def test_swapping_the_players_mirrors_the_interval() -> None:
    random = np.random.default_rng(5)
    first, second = random.gamma(2.4, 84_000, (2, 500))
    one, other = bets_on(first, second, capped=False), bets_on(second, first, capped=False)
    low, high = one.ratio_limits(0.05)
    assert (1 / high, 1 / low) == pytest.approx(other.ratio_limits(0.05), rel=1e-6)
    low, high = one.difference_limits(0.05)
    assert (-high, -low) == pytest.approx(other.difference_limits(0.05), abs=0.1)


def test_the_first_games_set_the_cap_and_do_not_bet() -> None:
    first = np.concatenate([np.full(FIRST_GAMES, 1_000.0), [500.0, 9_000.0, 3_999.0, 100.0]])
    second = np.concatenate([np.zeros(FIRST_GAMES), [5_000.0, 4_000.0, 4_001.0, 0.0]])
    bets = bets_on(first, second)
    assert bets.cap == CAP_MULTIPLE * 1_000
    assert bets.first.tolist() == [500, 4_000, 3_999, 100]
    assert bets.second.tolist() == [4_000, 4_000, 4_000, 0]
    assert bets.above_cap == (0.25, 0.5)
    plain = bets_on(first, second, capped=False)
    assert (plain.cap, plain.above_cap, len(plain.first)) == (None, None, len(first))


def test_too_few_games_and_a_player_that_never_scores_have_no_bets() -> None:
    assert BettingTest.of(np.ones(FIRST_GAMES), np.ones(FIRST_GAMES), ANY, 4) is None
    assert BettingTest.of(np.zeros(200), np.ones(200), ANY, 4) is None
    assert BettingTest.of([], [], ANY, 0) is None
    assert BettingTest.of([], [], ANY, None) is None
