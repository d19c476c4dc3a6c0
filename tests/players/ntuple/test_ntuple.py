"""N-tuple networks compute the values of their definition, play legal moves, and are saved and loaded."""

from pathlib import Path

import numpy as np
import pytest
from octofold_game import rules
from octofold_game.bitboards import pack
from octofold_game.symmetries import CELLS
from octofold_players.compiled.table_files import TableFileError
from octofold_players.ntuple.network import NTupleNetwork

TUPLES = ((0, 1, 2, 3), (0, 1, 4, 5), (1, 2, 6, 9))


@pytest.fixture(params=[(), (7, 6, 3)], ids=["one stage", "four stages"])
def network(request: pytest.FixtureRequest) -> NTupleNetwork:
    stages = request.param
    size = NTupleNetwork.size(TUPLES) * (len(stages) + 1)
    return NTupleNetwork(TUPLES, np.random.default_rng(0).normal(size=size).astype(np.float32), stages)


def _boards(count: int = 200) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 9, (count, 16)).astype(np.uint8)


def _stage_by_definition(network: NTupleNetwork, board: np.ndarray) -> int:
    for number, exponent in enumerate(network.stages):
        if not (board.max() >= exponent if number == 0 else exponent in board):
            return number
    return len(network.stages)


def _value_by_definition(network: NTupleNetwork, board: np.ndarray) -> float:
    total = 0.0
    first = _stage_by_definition(network, board) * NTupleNetwork.size(network.tuples)
    for cells in CELLS:
        view = board[cells].astype(int)
        for table, places in enumerate(network.tuples):
            index = sum(view[cell] << 4 * place for place, cell in enumerate(places))
            total += network.values[first + table * 16 ** len(places) + index]
    return total


def test_action_values_are_reward_plus_the_sum_of_all_table_entries(network: NTupleNetwork) -> None:
    boards = _boards(60)
    afterstates, rewards, legal = rules.afterstates(boards)
    values = network.action_values(pack(boards))
    for n in range(len(boards)):
        for move in range(4):
            if legal[n, move]:
                expected = rewards[n, move] + _value_by_definition(network, afterstates[n, move])
                assert values[n, move] == pytest.approx(expected, rel=1e-4, abs=1e-3)
            else:
                assert values[n, move] == -np.inf


def test_a_saved_network_is_loaded_unchanged(network: NTupleNetwork, tmp_path: Path) -> None:
    network.save(tmp_path)
    loaded = NTupleNetwork.load(tmp_path)
    assert (loaded.tuples, loaded.stages) == (network.tuples, network.stages)
    np.testing.assert_array_equal(loaded.values, network.values)


@pytest.mark.parametrize("damage", ["truncate", "nan", "stages"])
def test_a_damaged_network_is_named(network: NTupleNetwork, tmp_path: Path, damage: str) -> None:
    network.save(tmp_path)
    values, description = tmp_path / "values.npy", tmp_path / "network.json"
    if damage == "truncate":
        values.write_bytes(values.read_bytes()[:1000])
    elif damage == "nan":
        np.save(values, np.where(np.arange(network.values.size) == 5, np.nan, network.values))
    else:
        description.write_text('{"format": 1, "tuples": [[0, 1, 2, 3]], "stages": [16]}')
    with pytest.raises(TableFileError, match=str(tmp_path)):
        NTupleNetwork.load(tmp_path)
