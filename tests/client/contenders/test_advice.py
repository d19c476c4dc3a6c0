"""An adviser says what it would play itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from octofold_client.contenders.advice import local_adviser
from octofold_players.endgame.formation import SIX
from octofold_players.endgame.solver import solve
from octofold_players.endgame.tables import save_table
from octofold_players.perimeter.player import PerimeterPlayer


def test_the_move_that_a_player_advises_is_the_one_that_it_makes(tmp_path: Path) -> None:
    save_table(tmp_path, SIX, 6, solve(SIX, 6))
    player = PerimeterPlayer(tmp_path, depth=1)
    boards = np.random.default_rng(0).choice(np.array([0, 0, 0, 1, 2, 3], np.uint8), (50, 16))
    boards[:, [0, 1, 2, 4, 5, 6]] = [12, 11, 9, 7, 8, 6]
    moves = player.next_moves(boards)
    assert (moves != player.action_values(boards).argmax(axis=1)).any()  # the tables know better
    adviser = local_adviser(f"perimeter:{tmp_path},depth=1")
    assert [adviser.advise(board).choice for board in boards] == moves.tolist()
    assert adviser.choose(boards).tolist() == moves.tolist()
