"""How long an evaluation will still take: the truth lies between the least and the most that are said."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client.evaluation.forecast import Lengths, seconds_left

GAMES, TRIALS = 100, 40
Draw = Callable[[np.random.Generator], NDArray[np.float64]]
LENGTHS: dict[str, Draw] = {
    "bell": lambda generator: generator.normal(3000, 1200, GAMES),
    "exponential": lambda generator: generator.exponential(3000, GAMES),
    "two kinds": lambda generator: np.where(
        generator.random(GAMES) < 0.3,
        generator.normal(1500, 400, GAMES),
        generator.normal(7000, 2500, GAMES),
    ),
    "long tail": lambda generator: generator.lognormal(8, 0.6, GAMES),
}


SHARES_DONE = (0.25, 0.5, 0.8, 0.95, 0.98)


def share_right(kind: str, share_done: float) -> float:
    """How often the truth lies between least and most, of evaluations that far."""
    generator = np.random.default_rng(1)
    right = 0
    for _ in range(TRIALS):
        lengths = np.sort(LENGTHS[kind](generator).clip(50).astype(int))
        now = int(np.quantile(lengths, share_done))
        done, running = lengths[lengths <= now], lengths[lengths > now]
        left = seconds_left(done, np.full(len(running), now), 0, moves_per_second=len(running))
        assert left is not None
        # A move a second for each game. If that stays so, only the longest counts; if the server gets faster
        # as it has fewer games to answer, only the sum.
        slow, quick = (running - now).max(), (running - now).sum() / len(running)
        right += bool(left[0] <= slow and quick <= left[1])
    return right / TRIALS


def test_the_truth_is_between_least_and_most_whatever_the_lengths_are_like() -> None:
    right = {(kind, share): share_right(kind, share) for kind in LENGTHS for share in SHARES_DONE}
    assert min(right.values()) > 0.75, right
    assert np.mean(list(right.values())) > 0.93, right


def test_games_that_wait_take_an_average_each_and_more_of_them_more() -> None:
    lengths = np.arange(1, 201)
    least, most = seconds_left(lengths, np.full(10, 5), 1000, moves_per_second=100) or (0.0, 0.0)
    assert least < 1000 * lengths.mean() / 100 < most
    assert most < 2 * least
    more, _ = seconds_left(lengths, np.full(10, 5), 2000, moves_per_second=100) or (0.0, 0.0)
    assert more > 1.9 * least


@pytest.mark.parametrize(
    ("finished", "running"),
    [([], [10]), ([5, 6, 7, 8], []), (range(100, 119), np.full(81, 118))],
)
def test_nothing_is_said_before_a_fifth_of_the_games_and_five_have_ended(
    finished: list[int], running: list[int]
) -> None:
    assert seconds_left(finished, running, 3, 100.0) is None


def test_without_running_games_the_curve_is_the_share_of_longer_ones() -> None:
    soon, late = Lengths.of([10, 20, 20, 30, 40], []) or (None, None)
    assert soon is not None
    assert late is not None
    assert soon.share_lasting([0, 9, 10, 20, 39]).tolist() == pytest.approx([1, 1, 0.8, 0.4, 0.2])
    assert soon.moves_left([0.0])[0] == pytest.approx(24, rel=0.5)


@pytest.mark.parametrize("ages", [[100_000_000], [100_000_000, 5]])
def test_a_game_that_is_far_longer_than_all_finished_ones_has_an_end(ages: list[int]) -> None:
    least, most = seconds_left(range(1, 51), ages, 2, moves_per_second=10.0) or (0.0, 0.0)
    assert 0 < least < most < 10_000


def test_a_running_game_counts_as_longer_than_it_is_so_far() -> None:
    finished = [10, 20, 30, 40, 50]
    alone = Lengths.of(finished, [])
    censored = Lengths.of(finished, [45, 45, 45])
    assert alone is not None
    assert censored is not None
    assert (censored[0].moves_left([0.0]) > alone[0].moves_left([0.0])).all()
