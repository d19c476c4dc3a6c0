"""Advisers give a player's opinion of a board and of a move on it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from octofold_client import Client, ModelVersion
from octofold_client.cli.judge_flags import JudgeFlags
from octofold_client.contenders.judges import Advice, local_adviser, local_judge, served_adviser
from octofold_client.contenders.served_model import ServedModel
from octofold_client.rpc.answers import NextMove
from octofold_client.terminal.hand import remark
from octofold_game.contract.model import Card, Rule
from octofold_game.rules import legal_moves
from octofold_players.endgame.formation import SIX
from octofold_players.endgame.solver import solve
from octofold_players.endgame.tables import save_table
from octofold_players.perimeter.player import PerimeterPlayer


def test_the_move_that_a_player_advises_and_judges_by_is_the_one_that_it_makes(tmp_path: Path) -> None:
    save_table(tmp_path, SIX, 6, solve(SIX, 6))
    player = PerimeterPlayer(tmp_path, depth=1)
    boards = np.random.default_rng(0).choice(np.array([0, 0, 0, 1, 2, 3], np.uint8), (50, 16))
    boards[:, [0, 1, 2, 4, 5, 6]] = [12, 11, 9, 7, 8, 6]
    moves = player.next_moves(boards)
    assert (moves != player.action_values(boards).argmax(axis=1)).any()  # the tables decide
    adviser = local_adviser(f"perimeter:{tmp_path},depth=1")
    assert [adviser.advise(board).choice for board in boards] == moves.tolist()
    assert local_judge(f"perimeter:{tmp_path},depth=1").ask(boards).choices.tolist() == moves.tolist()


def test_a_local_player_gives_values_in_its_unit_and_judges_a_move() -> None:
    board = np.array([0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 1, 1, 6, 7], np.uint8)
    with ExitStack() as stack:
        ask = JudgeFlags(judge="minimax:depth=1").adviser_of(stack)
    assert ask is not None
    thought = ask(board)
    assert isinstance(thought, Advice)
    assert thought.values is not None
    assert thought.unit == "heuristic points"
    assert remark(thought, thought.choice).startswith(f"{thought.adviser} agrees with ")
    worst = int(np.where(legal_moves(board[None])[0], thought.values, np.inf).argmin())
    assert " prefers " in remark(thought, worst)


class Views:
    """A replacement for a client of a network with eight views."""

    def next_move(self, _: np.ndarray, **__: str) -> NextMove:
        probabilities = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
        return NextMove(3, probabilities, np.array([4, 1, 1, 2], np.uint8), "net", "1", 0, 0)


@pytest.mark.parametrize("rule", ["vote", "mean"])
def test_votes_of_views_are_shown_where_they_decide(rule: Rule) -> None:
    card = Card(format=1, name="net", version=1, largest_exponent=15, decision_rule=rule, symmetries=8)
    served = ServedModel("net", ModelVersion("1", "ready", "", "", card))
    board = np.array([0, 1, 0, 2] * 4, np.uint8)
    thought = served_adviser(cast("Client", Views()), served).advise(board)
    assert ("4/8" in remark(thought, 0)) == (rule == "vote")
