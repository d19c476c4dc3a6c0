"""Tables make the best moves. A trimmed table has exactly the positions to which its moves lead."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from octofold_game.bitboards import pack, slide
from octofold_players.endgame.formation import FIVE, FORMATIONS, SIX
from octofold_players.endgame.lookup import EndgameTable, endgame_moves
from octofold_players.endgame.solver import solve
from octofold_players.endgame.tables import load_tables, save_listed, save_table
from octofold_players.endgame.trimming import Visits
from support.plain_endgames import exact_chances

KEPT = ([14, 13, 12, 0, 11, 10] + [0] * 10, [12, 11, 9, 0, 7, 8, 6] + [0] * 9)
"""The kept tiles of `five` and of `six`; no two of them merge."""
BLOCK = np.array([[12, 11, 9, 3, 7, 8, 6, 2, 2, 0, 1, 0, 1, 0, 0, 0]], np.uint8)
DISORDER = np.array([[3, 4, 2, 5, 1, 0, 2, 7, 4, 4, 0, 1, 2, 6, 1, 3]], np.uint8)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[EndgameTable, ...]:
    folder = tmp_path_factory.mktemp("tables")
    for formation, largest in ((FIVE, 5), (SIX, 6)):
        save_table(folder, formation, largest, solve(formation, largest))
    return load_tables(folder)


def test_a_trimmed_table_contains_exactly_the_reachable_boards(
    tables: tuple[EndgameTable, ...], tmp_path: Path
) -> None:
    visits, (start,) = Visits(tables, 1), pack(BLOCK)
    visits.play_on(np.full(2000, start))
    visits.play_on(pack(DISORDER))
    for table, listed in zip(tables, visits.listed(), strict=True):
        save_listed(tmp_path, table, listed)
    trimmed = load_tables(tmp_path)
    assert 100 < len(trimmed[1].listed) < 100_000

    move = endgame_moves(pack(BLOCK), tables)[0]
    assert endgame_moves(pack(BLOCK), trimmed) == [move]
    afterstate, _ = slide(start, move)
    empty = [cell for cell in range(16) if not int(afterstate) >> 4 * cell & 15]
    following = np.array([int(afterstate) | 1 << 4 * cell for cell in empty], np.uint64)
    np.testing.assert_array_equal(endgame_moves(following, trimmed), endgame_moves(following, tables))
    other = pack(np.where(np.arange(16) == 7, 0, BLOCK).astype(np.uint8))  # the sum of the tiles never falls
    assert endgame_moves(other, tables)[0] >= 0
    assert endgame_moves(other, trimmed)[0] == -1


@pytest.mark.parametrize("of", [0, 1], ids=["five", "six"])
def test_no_move_is_better_by_exact_chances(
    tables: tuple[EndgameTable, ...], of: int, tmp_path: Path
) -> None:
    table = tables[of]
    formation, largest = FORMATIONS[of], int(table.shape.largest)
    boards = np.tile(KEPT[of], (200_000, 1)).astype(np.uint8)
    for cell in formation.below_next:
        boards[:, cell] = np.random.default_rng(cell).integers(table.shape.sizes[cell], size=len(boards))
    boards = boards[endgame_moves(pack(boards), (table,)) >= 0]
    late = boards[np.argsort(np.where(boards > 0, 1 << boards.astype(int), 0).sum(axis=1))[-300:]]
    visits = Visits((table,), 1)
    visits.play_on(pack(late))
    save_listed(tmp_path, table, visits.listed()[0])
    exact = exact_chances(formation, largest, late)
    assert (exact.max(axis=1) < 0.99).sum() > 20
    for asked in ((table,), load_tables(tmp_path)):
        chosen = exact[np.arange(len(late)), endgame_moves(pack(late), asked)]
        np.testing.assert_allclose(chosen, exact.max(axis=1), rtol=0, atol=20 / 16_382)
