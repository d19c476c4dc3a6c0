"""Players that a server can use: searches, limits, and refusals."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game.contract.searches import Limits, Option, Search
from octofold_game.errors import OctofoldError
from octofold_players.compiled.table_files import mapped
from octofold_players.endgame.formation import SIX
from octofold_players.endgame.solver import solve
from octofold_players.endgame.tables import save_table
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer
from octofold_players.local_player import ValuePlayer
from octofold_players.ntuple.network import NTupleNetwork
from octofold_players.ntuple.player import NTuplePlayer
from octofold_players.perimeter.player import PerimeterPlayer

Files = dict[str, NDArray[np.uint8]]
OPEN = [7, 6, 5, 4, 1, 2, 3, 2, 0, 1, 2, 1, 0, 0, 1, 0]
BLOCK = [12, 11, 9, 3, 7, 8, 6, 2, 2, 0, 1, 0, 1, 0, 0, 0]  # in the formation of the tables
NEARLY_OVER = [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 0]
LARGE = [17, 15, 14, 11, 1, 2, 3, 2, 0, 1, 2, 1, 0, 0, 1, 0]  # beyond the packed boards of the search
HOURS = 1e5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Endgame tables and a network."""
    folder = tmp_path_factory.mktemp("files")
    save_table(folder / "tables", SIX, 6, solve(SIX, 6))
    tuples = ((0, 1, 2, 3), (1, 2, 5, 6))
    values = np.random.default_rng(5).normal(100, 30, NTupleNetwork.size(tuples)).astype(np.float32)
    NTupleNetwork(tuples, values).save(folder / "network")
    return folder


def files_of(player: ValuePlayer) -> Files:
    if isinstance(player, HeuristicExpectimaxPlayer):
        return {}
    assert isinstance(player, (NTuplePlayer, PerimeterPlayer))
    sources = player.served_files()
    return {name: mapped(source) for name, source in sources.items() if isinstance(source, Path)}


PLAYERS: dict[str, tuple[dict[str, Option], Callable[[Path], ValuePlayer]]] = {
    "expectimax": ({"depth": 3}, lambda _: HeuristicExpectimaxPlayer(3)),
    "expectimax, split": ({"depth": 5}, lambda _: HeuristicExpectimaxPlayer(5)),
    "expectimax by tiles": ({"cutoff": 0.01}, lambda _: HeuristicExpectimaxPlayer(cutoff=0.01)),
    "ntuple": ({}, lambda folder: NTuplePlayer(folder / "network")),
    "ntuple, tables": ({"depth": 2}, lambda at: NTuplePlayer(at / "network", 2, at / "tables")),
    "ntuple, deeper": ({"deeper_below": 9}, lambda at: NTuplePlayer(at / "network", deeper_below=9)),
    "perimeter": ({}, lambda folder: PerimeterPlayer(folder / "tables")),
}
every_player = pytest.mark.parametrize("name", PLAYERS)


def player_and_search(name: str, folder: Path, cores: int = 2) -> tuple[ValuePlayer, Search]:
    """Return a player, and the search that a server would make for it."""
    options, make = PLAYERS[name]
    player = make(folder)
    return player, type(player).served(options, files_of(player), cores)  # type: ignore[attr-defined]


@every_player
def test_a_served_player_makes_the_moves_of_the_player(
    name: str, folder: Path, boards: NDArray[np.uint8]
) -> None:
    boards = np.concatenate([boards, np.array([OPEN, BLOCK, NEARLY_OVER, LARGE], np.uint8)])
    player, one_core = player_and_search(name, folder, 1)
    _, cores = player_and_search(name, folder, 3)
    moves, values = player.next_moves(boards), player.action_values(boards).astype(np.float32)
    for search in (one_core, cores):
        for limits in (Limits(HOURS), Limits()):
            found = search.find(boards, limits)
            assert found.moves.tolist() == moves.tolist()
            assert found.values is not None
            searched = found.depth > 0
            np.testing.assert_array_equal(found.values[searched], values[searched])
            assert np.isneginf(found.values[~searched & (moves >= 0)]).all()
            assert (found.positions[searched] > 0).all()
    alone = [cores.find(board[None], Limits()) for board in boards]
    assert [int(each.moves[0]) for each in alone] == moves.tolist()
    assert [int(each.positions[0]) for each in alone] == found.positions.tolist()
    np.testing.assert_array_equal(np.concatenate([each.values for each in alone]), found.values)


def test_tables_answer_without_a_search(folder: Path) -> None:
    _, search = player_and_search("perimeter", folder)
    found = search.find(np.array([BLOCK, OPEN], np.uint8), Limits())
    assert found.depth.tolist() == [0, 4]
    assert found.moves[0] >= 0


@every_player
def test_a_served_player_that_is_stopped_finishes_no_search(name: str, folder: Path) -> None:
    _, search = player_and_search(name, folder)
    stop = np.ones(1, np.uint8)
    for limits in (Limits(HOURS, stop), Limits(HOURS, stop, True)):
        found = search.find(np.array([OPEN] * 20, np.uint8), limits)
        assert found.moves.tolist() == [-1] * 20
        assert found.depth.tolist() == [0] * 20
        assert found.values is not None
        assert np.isneginf(found.values).all()


@every_player
def test_a_search_one_move_deep_is_finished_even_without_time(name: str, folder: Path) -> None:
    _, search = player_and_search(name, folder)
    for limits in (Limits(0.0), Limits(0.0, deeper=True)):
        assert search.find(np.array([OPEN] * 20, np.uint8), limits).depth.tolist() == [1] * 20


@every_player
@pytest.mark.parametrize("cores", [1, 2])
def test_a_turn_that_ends_leaves_boards_that_have_not_begun(
    name: str, cores: int, folder: Path, boards: NDArray[np.uint8]
) -> None:
    _, search = player_and_search(name, folder, cores)
    whole = search.find(boards, Limits())
    done = 0
    while done < len(boards):
        found = search.find(boards[done:], Limits(turn_seconds=0.0))
        end = done + len(found.moves)
        assert done < end
        assert found.moves.tolist() == whole.moves[done:end].tolist()
        assert found.depth.tolist() == whole.depth[done:end].tolist()
        assert found.positions.tolist() == whole.positions[done:end].tolist()
        if name == "perimeter":
            assert end <= done + 8 * cores
        done = end
    assert done == len(boards)


@pytest.mark.parametrize("name", ["expectimax", "ntuple", "perimeter"])
def test_a_search_that_would_take_hours_ends_when_stopped(name: str, folder: Path) -> None:
    _, search = player_and_search(name, folder)
    stop, begun = np.zeros(1, np.uint8), threading.Event()
    moves: list[int] = []

    def find() -> None:
        begun.set()
        moves.extend(search.find(np.array([OPEN] * 3, np.uint8), Limits(HOURS, stop, deeper=True)).moves)

    thread = threading.Thread(target=find)
    thread.start()
    assert begun.wait(100)
    stop[0] = 1
    thread.join(100)  # the thread may first compile the search
    assert not thread.is_alive()
    assert len(moves) == 3


def test_the_deepest_search_that_finishes_in_time_counts() -> None:
    search = HeuristicExpectimaxPlayer.served({"depth": 12, "cutoff": 0}, {}, 2)
    search.prepare()
    board = np.array([OPEN], np.uint8)
    found = search.find(board, Limits(1.0))
    depth = int(found.depth[0])
    assert 1 <= depth < 12
    shallower = HeuristicExpectimaxPlayer.served({"depth": depth, "cutoff": 0}, {}, 1)
    same = shallower.find(board, Limits())
    assert found.moves.tolist() == same.moves.tolist()
    np.testing.assert_array_equal(found.values, same.values)


def test_a_time_limit_can_exceed_the_depth_option_but_not_its_maximum() -> None:
    search = HeuristicExpectimaxPlayer.served({"depth": 2, "cutoff": 0.05}, {}, 2)
    board = np.array([NEARLY_OVER], np.uint8)
    assert search.find(board, Limits(HOURS)).depth.tolist() == [2]
    assert search.find(board, Limits(HOURS, deeper=True)).depth.tolist() == [12]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            HeuristicExpectimaxPlayer,
            {"dpeth": 3},
            "expectimax has no option dpeth (choose from depth, cutoff, heuristic, weights); "
            "did you mean depth?",
        ),
        (HeuristicExpectimaxPlayer, {"depth": 0}, "depth must be from 1 to 12, got 0"),
        (HeuristicExpectimaxPlayer, {"depth": True}, "expectimax: depth must be a whole number, got True"),
        (HeuristicExpectimaxPlayer, {"cutoff": "no"}, "expectimax: cutoff must be a number, got 'no'"),
        (
            HeuristicExpectimaxPlayer,
            {"heuristic": "his"},
            "heuristic must be one of moravek, nneonneo, got 'his'",
        ),
        (PerimeterPlayer, {"tables": "/etc"}, "perimeter has no option tables (choose from depth)"),
    ],
)
def test_a_wrong_option_gives_a_one_line_error(
    kind: type[PerimeterPlayer], options: dict[str, Option], message: str, folder: Path
) -> None:
    files = files_of(PerimeterPlayer(folder / "tables")) if kind is PerimeterPlayer else {}
    with pytest.raises(OctofoldError) as refusal:
        kind.served(options, files, 1)
    assert str(refusal.value) == message


def test_a_wrong_network_gives_a_one_line_error(folder: Path) -> None:
    files = files_of(NTuplePlayer(folder / "network"))
    for name, content, message in (
        ("values.npy", files["values.npy"][:100], "values.npy: damaged, or not an array of numbers"),
        ("network.json", np.zeros(9, np.uint8), "network.json: not the description of an n-tuple network"),
        ("other", np.zeros(9, np.uint8), "no endgame tables: no file is named TABLE.table.json"),
    ):
        with pytest.raises(OctofoldError) as refusal:
            NTuplePlayer.served({}, {**files, name: content}, 1)
        assert str(refusal.value).startswith(message)
    with pytest.raises(OctofoldError, match=r"^network\.json is missing$"):
        NTuplePlayer.served({}, {}, 1)


def test_a_kind_without_files_refuses_files() -> None:
    with pytest.raises(OctofoldError, match=r"^expectimax does not use the file kept\.npy; remove it"):
        HeuristicExpectimaxPlayer.served({}, {"kept.npy": np.zeros(1, np.uint8)}, 1)


@every_player
def test_a_search_of_no_boards_finds_nothing(name: str, folder: Path) -> None:
    _, search = player_and_search(name, folder)
    found = search.find(np.zeros((0, 16), np.uint8), Limits())
    assert found.values is not None
    assert [len(each) for each in found if each is not None] == [0] * 4
    assert found.values.shape == (0, 4)
