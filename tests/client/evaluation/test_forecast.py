"""How long an evaluation will still take: the truth lies between the least and the most that are said."""

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client.evaluation.forecast import TILE_A_MOVE, Lengths, seconds_left
from octofold_game.contract.model import Strength, read_card
from support.shipped import newest

GAMES, TRIALS = 100, 40
FLAGSHIP = read_card(newest("flagship")).strength
assert FLAGSHIP is not None
Draw = Callable[[np.random.Generator], NDArray[np.float64]]


def of_card(generator: np.random.Generator) -> NDArray[np.float64]:
    """Most games end between two tiles, as those of real players."""
    assert FLAGSHIP is not None
    tiles, shares = np.array([(row.tile, row.share) for row in FLAGSHIP.reached]).T
    reached = np.searchsorted(-shares, -generator.random(GAMES)) - 1
    return np.asarray(tiles[reached.clip(0)] * generator.uniform(1, 2, GAMES) / TILE_A_MOVE)


LENGTHS: dict[str, Draw] = {
    "bell": lambda generator: generator.normal(3000, 1200, GAMES),
    "exponential": lambda generator: generator.exponential(3000, GAMES),
    "long tail": lambda generator: generator.lognormal(8, 0.6, GAMES),
    "flagship": of_card,
}
SHARES_DONE = (0.25, 0.5, 0.8, 0.95, 0.98)


def shares_right(kind: str, strength: Strength | None, share_done: float) -> tuple[float, float]:
    """How often the truth lies between least and most, of evaluations that far, and the typical distance."""
    generator = np.random.default_rng(1)
    right, widths = 0, []
    for _ in range(TRIALS):
        lengths = np.sort(LENGTHS[kind](generator).clip(50).astype(int))
        now = int(np.quantile(lengths, share_done))
        done, running = lengths[lengths <= now], lengths[lengths > now]
        ages = np.full(len(running), now)
        left = seconds_left(Counter(done.tolist()), ages, 0, len(running), strength)
        assert left is not None
        # A move a second for each game. If that stays so, only the longest counts; if the server gets faster
        # as it has fewer games to answer, only the sum.
        slow, quick = (running - now).max(), (running - now).sum() / len(running)
        right += bool(left[0] <= slow and quick <= left[1])
        widths.append((left[1] - left[0]) / lengths.max())
    return right / TRIALS, float(np.median(widths))


@pytest.mark.parametrize("strength", [None, FLAGSHIP], ids=["without a card", "with its card"])
def test_the_truth_is_between_least_and_most_which_come_closer(strength: Strength | None) -> None:
    kinds = LENGTHS if strength is None else ["flagship"]
    found = {kind: [shares_right(kind, strength, share) for share in SHARES_DONE] for kind in kinds}
    right = [share for rows in found.values() for share, _ in rows]
    assert min(right) > 0.75, found
    assert np.mean(right) > 0.93, found
    for kind in kinds:
        widths = [width for _, width in found[kind]]
        assert widths[-1] < 0.7 * widths[0], found


def test_a_card_tells_it_from_the_first_move() -> None:
    ages = np.ones(GAMES, int)
    assert seconds_left(Counter(), ages, 0, 100.0) is None
    least, most = seconds_left(Counter(), ages, 0, 100.0, FLAGSHIP) or (0.0, 0.0)
    assert 0 < least < most < 4 * least


def test_games_that_wait_take_an_average_each_and_more_of_them_more() -> None:
    lengths, ages = np.arange(1, 201), np.full(10, 5)
    finished = Counter(lengths.tolist())
    least, most = seconds_left(finished, ages, 1000, 100.0) or (0.0, 0.0)
    assert least < 1000 * lengths.mean() / 100 < most
    assert most < 2 * least
    more, _ = seconds_left(finished, ages, 2000, 100.0) or (0.0, 0.0)
    assert more > 1.9 * least


@pytest.mark.parametrize(
    ("finished", "running"),
    [([], [10]), ([5, 6, 7, 8], []), (range(100, 119), np.full(81, 118))],
)
def test_nothing_is_said_before_a_fifth_of_the_games_and_five_have_ended(
    finished: Iterable[int], running: list[int]
) -> None:
    assert seconds_left(Counter(finished), running, 3, 100.0) is None


@pytest.mark.parametrize("ages", [[100_000_000], [100_000_000, 5]])
@pytest.mark.parametrize("strength", [None, FLAGSHIP], ids=["without a card", "with its card"])
def test_a_game_that_is_far_longer_than_all_others_has_an_end(
    ages: list[int], strength: Strength | None
) -> None:
    least, most = seconds_left(Counter(range(1, 51)), ages, 2, 10.0, strength) or (0.0, 0.0)
    assert 0 < least < most < 1e9


def test_a_running_game_counts_as_longer_than_it_is_so_far() -> None:
    finished = Counter([10, 20, 30, 40, 50])
    alone = Lengths.fits_of(finished, np.zeros(0))
    censored = Lengths.fits_of(finished, np.full(3, 45.0))
    assert alone is not None
    assert censored is not None
    assert (censored[0].moves_left(0.0) > alone[0].moves_left(0.0)).all()
