"""Last positions of games, agreement with a judge, and costs of moves."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client.contenders.judges import Judge, Opinion
from octofold_client.evaluation.interrupts import DeferredInterrupts
from octofold_client.studies.analysis import Analysis, Ending, Verdicts, judge_positions
from octofold_game.replays import read_replays
from octofold_game.rules import legal_moves
from octofold_game.trajectories import Trajectory, last_positions

Ask = Callable[[NDArray[np.uint8]], Opinion]


def first_legal(boards: NDArray[np.uint8]) -> Opinion:
    """Return the first legal move as the choice, and the values 3, 2, 1, 0 for the moves."""
    values = np.tile(np.array([3.0, 2.0, 1.0, 0.0]), (len(boards), 1))
    return Opinion(legal_moves(boards).argmax(axis=1).astype(np.int8), values)


def judge(ask: Ask = first_legal, largest_exponent: int = 15, boards_at_once: int = 7) -> Judge:
    return Judge("first", None, "points", largest_exponent, boards_at_once, ask)


def test_the_last_positions_equal_those_of_a_replayed_game(games: Path) -> None:
    episodes = list(read_replays(games / "games.replay"))
    positions = last_positions(episodes, 9)
    assert len(positions) == 9 * len(episodes)
    for episode in episodes:
        rows = positions.games == episode.game
        walk = Trajectory.of(episode)
        assert positions.numbers[rows].tolist() == list(range(len(episode) - 9, len(episode)))
        assert positions.left[rows].tolist() == list(range(9, 0, -1))
        assert (positions.boards[rows] == walk.boards[-10:-1]).all()
        assert (positions.made[rows] == walk.moves[-9:]).all()
        assert walk.boards[-1].tolist() == episode.final_board.tolist()
        assert walk.scores[-1] == episode.score


def test_agreement_and_cost_follow_their_definitions(games: Path) -> None:
    episodes = list(read_replays(games / "games.replay"))
    positions = last_positions(episodes, 20)
    verdicts = Verdicts.none(len(positions))
    judge_positions(judge(), positions, verdicts)
    choices = legal_moves(positions.boards).argmax(axis=1)
    costs = positions.made - choices  # each later move is worth a point less
    analysis = Analysis.of(list(map(Ending.of, episodes)), positions, verdicts, 20, judge())
    whole = analysis.all
    assert whole.judged == len(positions)
    assert whole.agreement == np.mean(choices == positions.made)
    assert whole.cost == pytest.approx(costs.mean())
    cost = analysis.cost_of_a_game
    assert cost is not None
    assert cost.average == pytest.approx(costs.sum() / len(episodes))
    assert cost.interval is not None
    assert cost.interval[0] < cost.average < cost.interval[1]
    for groups in (analysis.by_stage, analysis.by_distance):
        assert sum(group.positions for group in groups) == len(positions)
        assert sum(group.cost_share or 0.0 for group in groups) == pytest.approx(1.0)
    assert [group.label for group in analysis.by_distance] == [
        "1",
        "2 to 3",
        "4 to 7",
        "8 to 15",
        "16 to 20",
    ]
    # The last 20 moves of a game are too close together to list two of them.
    most = [costs[positions.games == episode.game].max() for episode in episodes]
    assert [move.cost for move in analysis.costliest] == sorted((cost for cost in most if cost), reverse=True)


def test_ctrl_c_keeps_finished_judgments(games: Path) -> None:
    positions = last_positions(list(read_replays(games / "games.replay")), 5)
    verdicts = Verdicts.none(len(positions))
    calls: list[int] = []

    def ask(boards: NDArray[np.uint8]) -> Opinion:
        calls.append(len(boards))
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return first_legal(boards)

    with pytest.raises(KeyboardInterrupt), DeferredInterrupts() as interrupts:
        judge_positions(judge(ask), positions, verdicts, before_each=interrupts.check)
    assert np.count_nonzero(verdicts.judged) == sum(calls) == 21
    analysis = Analysis.of([Ending(1, 100, 64, 0)], positions, verdicts, 5, judge())
    assert analysis.judged == analysis.all.judged == 21
    assert analysis.cost_of_a_game is not None  # of the four finished games


def test_boards_with_tiles_too_large_for_the_judge_are_not_judged(games: Path) -> None:
    positions = last_positions(list(read_replays(games / "games.replay")), 5)
    verdicts = Verdicts.none(len(positions))
    largest = positions.boards.max(axis=1)
    judge_positions(judge(largest_exponent=7), positions, verdicts)
    assert (verdicts.judged == (largest <= 7)).all()
    assert 0 < np.count_nonzero(verdicts.judged) < len(positions)


def test_of_costly_moves_that_are_close_together_only_the_costliest_is_listed(games: Path) -> None:
    episodes = list(read_replays(games / "games.replay"))
    positions = last_positions(episodes, 50)
    verdicts = Verdicts.none(len(positions))
    verdicts.choices[:], verdicts.costs[:] = positions.made, 0.0
    first, second = episodes[0].game, episodes[1].game
    costs = {(first, 5): 9.0, (first, 6): 8.0, (first, 9): 7.0, (second, 6): 6.0, (first, 40): 5.0}
    for (game, left), cost in costs.items():
        verdicts.costs[(positions.games == game) & (positions.left == left)] = cost
    found = Analysis.of(list(map(Ending.of, episodes)), positions, verdicts, 50, judge()).costliest
    assert [(move.game, move.cost) for move in found] == [(first, 9), (second, 6), (first, 5)]
