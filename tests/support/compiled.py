"""Compiles the searches and trainings that most tests call. Without it, each process of theirs compiles them.

python tests/support/compiled.py
"""

import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import torch
from octofold_players.endgame.formation import SIX
from octofold_players.endgame.solver import solve
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer
from octofold_players.minimax.player import MinimaxPlayer
from octofold_players.ntuple.network import NTupleNetwork
from octofold_players.ntuple.player import NTupleSearch
from octofold_players.perimeter.player import PerimeterSearch
from octofold_players.rollouts.monte_carlo import MonteCarloPlayer
from octofold_players.rollouts.random_player import RandomPlayer
from octofold_training.games.positions import PositionPool
from octofold_training.games.tensor_teacher import TensorTeacher
from octofold_training.learners.ntuple_td import NTupleLearner, NTupleOptions

TUPLES = ((0, 1), (1, 2))
BOARD = np.array([[1, 2, 3, 4, *[0] * 12]], np.uint8)


def _network() -> NTupleNetwork:
    return NTupleNetwork(TUPLES, np.zeros(NTupleNetwork.size(TUPLES), np.float32))


def _expectimax() -> None:
    HeuristicExpectimaxPlayer(depth=1).next_moves(BOARD)


def _minimax() -> None:
    MinimaxPlayer(depth=1).next_moves(BOARD)


def _small_players() -> None:
    RandomPlayer().next_moves(BOARD)
    MonteCarloPlayer(runs=1).next_moves(BOARD)
    solve(SIX, 5)


def _perimeter() -> None:
    PerimeterSearch((), 1, 1).prepare()


def _ntuple() -> None:
    NTupleSearch(_network(), 1, (), 1).prepare()


def _served_ntuple() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _network().save(Path(folder))
        files = {name: np.fromfile(Path(folder, name), np.uint8) for name in NTupleNetwork.FILES}
    for content in files.values():
        content.flags.writeable = False
    NTupleSearch(NTupleNetwork.read(files), 1, (), 1).prepare()


def _positions() -> None:
    network = _network()
    pool = PositionPool(batch_size=2, slices=1, seed=1)
    pool.warm_up(network)
    values = network.action_values(pool.batch())
    pool.advance(values.argmax(axis=1).astype(np.int8), values.argmax(axis=1).astype(np.int8))


def _tensor_teacher() -> None:
    TensorTeacher(_network(), torch.device("cpu")).action_values(torch.from_numpy(BOARD))


def _learner() -> None:
    NTupleLearner(NTupleOptions(tuples=TUPLES, threads=1)).learn(1)


LONGEST_FIRST = (
    _perimeter,
    _learner,
    _expectimax,
    _served_ntuple,
    _ntuple,
    _tensor_teacher,
    _minimax,
    _positions,
    _small_players,
)

if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        for done in as_completed([pool.submit(each) for each in LONGEST_FIRST]):
            done.result()
