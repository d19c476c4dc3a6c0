"""The luck of the tiles has mean 0 for any values and any player, and adjusted scores stay within limits."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client.contenders.judges import Judge, Opinion, local_judge
from octofold_client.evaluation.luck import (
    BAD_LUCK,
    COEFFICIENTS,
    FILE,
    GOOD_LUCK,
    POINTS,
    AdjustedAverage,
    Luck,
    adjusted_scores,
    luck_in,
    luck_of_games,
)
from octofold_client.evaluation.result_folder import Conditions, ResultFolder
from octofold_client.studies.pictures import luck_picture
from octofold_game.drawing.figures import COMPACT
from octofold_game.episodes import Episode, Episodes
from octofold_game.replays import ReplayWriter
from octofold_game.rules import afterstates
from octofold_game.spawns import CHANCE_OF_FOUR, CHANCE_OF_TWO

NTUPLE = f"ntuple:{Path(__file__).parents[3] / 'models/ntuple/4'}"
Values = Callable[[NDArray[np.uint8]], NDArray[np.float64]]


def judge_by(values: Values, sha256: str | None = "1" * 64) -> Judge:
    """Return a judge that gives the four moves of a board the value of the board."""

    def ask(boards: NDArray[np.uint8]) -> Opinion:
        return Opinion(np.zeros(len(boards), np.int8), np.repeat(values(boards)[:, None], 4, axis=1))

    return Judge("values", sha256, POINTS, 17, 1000, ask)


def near_the_corner(boards: NDArray[np.uint8]) -> NDArray[np.float64]:
    worth: NDArray[np.float64] = boards @ np.arange(16.0, 0.0, -1.0)
    return worth


def nonsense(boards: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return meaningless values that differ by more than the score of a game."""
    mixed = np.abs(np.sin(boards.astype(float) @ np.arange(1.0, 17.0)))
    worth: NDArray[np.float64] = 1e4 * np.modf(1e4 * mixed)[0] - 4e3
    return worth


def inverted_values(boards: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return values that are high for bad boards."""
    worth: NDArray[np.float64] = 1_500 - near_the_corner(boards)
    return worth


VALUES = pytest.mark.parametrize("values", [near_the_corner, nonsense, inverted_values])


def best_move(values: Values, board: NDArray[np.uint8]) -> int | None:
    """Return the legal move to the board with the highest value; None if the game is over."""
    after, _, legal = afterstates(board[None])
    return int(np.where(legal[0], values(after[0]), -np.inf).argmax()) if legal.any() else None


def all_games(values: Values, start: NDArray[np.uint8], moves: int) -> list[tuple[Episode, float]]:
    """Return every game of at most `moves` moves, with its probability."""
    games: list[tuple[Episode, float]] = []

    def play(board: NDArray[np.uint8], made: bytes, score: int, probability: float) -> None:
        move = best_move(values, board) if len(made) < moves else None
        if move is None:
            games.append((Episode(len(games), 1, 17, start, made, score, board), probability))
            return
        after, rewards, _ = afterstates(board[None])
        empty = np.flatnonzero(after[0, move] == 0)
        for tile, chance in enumerate((CHANCE_OF_TWO, CHANCE_OF_FOUR)):
            for cell in empty.tolist():
                following = after[0, move].copy()
                following[cell] = tile + 1
                byte = bytes([move | cell << 2 | tile << 6])
                play(following, made + byte, score + int(rewards[0, move]), probability * chance / len(empty))

    play(start, b"", 0, 1.0)
    return games


@VALUES
def test_the_expected_luck_over_all_possible_games_is_exactly_zero(values: Values) -> None:
    start = np.array([9, 2, 3, 8, 9, 1, 2, 8, 3, 2, 1, 4, 1, 1, 3, 2], np.uint8)
    games, chances = zip(*all_games(values, start, 4), strict=True)
    assert sum(chances) == pytest.approx(1.0)
    taken = luck_of_games(games, judge_by(values), 500.0)
    assert np.count_nonzero(taken[:, 1:].any(axis=0)) > 3  # the limits exclude some tiles, but not all
    assert np.array(chances) @ taken == pytest.approx(0.0, abs=1e-9)


def random_games(count: int, by: int = 1) -> list[Episode]:
    random = np.random.default_rng(by)
    episodes, finished = Episodes(5, range(count)), []
    while len(episodes.running):
        finished += episodes.step(np.where(episodes.legal, random.random(episodes.legal.shape), -1).argmax(1))
    return sorted(finished, key=lambda game: game.game)


@VALUES
def test_an_adjusted_score_is_neither_negative_nor_above_the_score_plus_its_window(values: Values) -> None:
    games, start = random_games(60), 150.0
    scores = np.array([game.score for game in games], float)[:, None]
    taken = luck_of_games(games, judge_by(values), start)
    assert (taken <= np.minimum(scores, GOOD_LUCK * start * COEFFICIENTS)).all()
    assert (taken >= -BAD_LUCK * start * COEFFICIENTS).all()
    assert (taken[:, 0] == 0).all()


def luck_of(taken: NDArray[np.float64]) -> Luck:
    return Luck("values", None, 100.0, np.arange(len(taken)), taken)


def test_the_coefficient_for_a_game_depends_only_on_other_games() -> None:
    random = np.random.default_rng(1)
    taken = random.normal(size=(100, 1)) * COEFFICIENTS * 100
    scores = (1_000 + 50 * random.normal(size=100) + taken[:, -1]).astype(np.int64)
    before = scores - adjusted_scores(scores, luck_of(taken))
    scores[::2] = scores[::2] * -3  # other coefficients would suit these scores better
    assert (scores - adjusted_scores(scores, luck_of(taken)))[::2] == pytest.approx(before[::2])


def test_good_values_narrow_the_interval_and_bad_ones_do_not_widen_it() -> None:
    random = np.random.default_rng(1)
    luck = random.normal(size=(400, 1)) * 100
    scores = (1_000 + 50 * random.normal(size=400) + luck[:, 0]).astype(np.int64)
    good = AdjustedAverage.of(scores, luck_of(luck * COEFFICIENTS))
    bad = AdjustedAverage.of(scores, luck_of(random.normal(size=(400, 1)) * 1e5 * COEFFICIENTS))
    assert good is not None
    assert bad is not None
    assert good.interval is not None
    assert 4 < good.worth < 6  # (100**2 + 50**2) / 50**2
    assert good.interval[0] < 1_000 < good.interval[1]
    assert bad.worth == 1.0
    assert AdjustedAverage.of(scores[:10], luck_of(luck[:10] * COEFFICIENTS)) is None


def test_values_that_are_far_too_high_are_not_used_before_rare_bad_luck_shows_it() -> None:
    scores = np.random.default_rng(1).integers(500, 1_500, 100)
    taken = scores.astype(np.float64)[:, None] * np.minimum(1.0, 10 * COEFFICIENTS)
    # With these values, one game in 200 loses everything; here, none does, and luck equals the score.
    luck = Luck("values", None, 2e5, np.arange(100), taken)
    assert adjusted_scores(scores, luck) == pytest.approx(scores)


@pytest.fixture
def folder(tmp_path: Path) -> ResultFolder:
    found = ResultFolder(tmp_path)
    found.write_conditions(Conditions("random", "", "", None, 5))
    with ReplayWriter(found.replays) as writer:
        for game in random_games(30):
            writer.append(game)
    return found


def test_a_folder_reuses_stored_luck_only_for_the_same_values(folder: ResultFolder) -> None:
    asked: list[int] = []

    def counting(boards: NDArray[np.uint8]) -> NDArray[np.float64]:
        asked.append(len(boards))
        return near_the_corner(boards)

    done: list[int] = []
    first = luck_in(folder, judge_by(counting), done.append)
    assert done == [30]
    assert asked
    asked.clear()
    again = luck_in(folder, judge_by(counting))
    assert sum(asked) == 32 * 15 * 2  # only the boards at the start
    assert (again.corrections == first.corrections).all()
    assert again.start == first.start
    other = luck_in(folder, judge_by(inverted_values, "2" * 64))
    assert (other.corrections != first.corrections).any()
    (folder.path / FILE).write_bytes(b"PK damaged")
    assert (luck_in(folder, judge_by(counting)).corrections == first.corrections).all()


def test_stored_luck_of_other_games_with_the_same_numbers_is_not_used(
    folder: ResultFolder, tmp_path: Path
) -> None:
    luck_in(folder, judge_by(near_the_corner))
    other = ResultFolder(tmp_path / "other")
    other.path.mkdir()
    other.write_conditions(Conditions("random", "", "", None, 5))
    with ReplayWriter(other.replays) as writer:
        for game in random_games(30, by=2):
            writer.append(game)
    right = luck_in(other, judge_by(near_the_corner))
    (other.path / FILE).write_bytes((folder.path / FILE).read_bytes())
    assert (luck_in(other, judge_by(near_the_corner)).corrections == right.corrections).all()


def test_values_for_all_possible_tiles_at_once_equal_those_of_single_boards() -> None:
    judge = local_judge(NTUPLE)
    boards = np.random.default_rng(3).integers(0, 12, (40, 16)).astype(np.uint8)
    boards[0], boards[1, 1:] = np.arange(1, 17), 17  # a full board, and tiles too large to pack
    together = judge.tile_values(boards)
    assert np.isnan(together).sum(axis=(1, 2)).tolist() == (2 * (boards > 0).sum(axis=1)).tolist()
    assert together == pytest.approx(replace(judge, all_tiles=None).tile_values(boards), nan_ok=True)


def test_the_picture_of_luck_names_the_luckiest_and_the_unluckiest_tile() -> None:
    episodes, boards = Episodes(7, [0]), list[NDArray[np.uint8]]()
    finished = list[Episode]()
    while not finished:
        boards.append(episodes.boards[0])
        finished = episodes.step(episodes.legal.argmax(axis=1))

    def slid(moves: int) -> NDArray[np.uint8]:
        made: NDArray[np.uint8] = afterstates(boards[moves - 1][None])[0][0, finished[0].moves[moves - 1] & 3]
        return made

    def values(asked: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return high values for the actual tile after move 30, and for every other tile after move 60."""
        came_at_30, came_at_60 = ((asked == boards[moves]).all(axis=1) for moves in (30, 60))
        could_at_60 = (asked != slid(60)).sum(axis=1) == 1
        return np.where(came_at_30 | could_at_60 & ~came_at_60, 1e4, 0.0)

    told = []
    for sign, moves in (("▲", 30), ("▼", 60)):
        (cell,) = np.flatnonzero(slid(moves) != boards[moves])
        tile = 1 << boards[moves][cell]
        told.append(f"{sign} move {moves}: {tile} at row {cell // 4 + 1}, column {cell % 4 + 1}")
    drawn = luck_picture(finished, judge_by(values), COMPACT)
    assert drawn.axes[0].get_title("right").split("\n") == told
