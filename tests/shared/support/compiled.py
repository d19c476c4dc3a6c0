"""Compiles code that many tests call, so that not every test process has to compile it."""

import multiprocessing
import sys

import numpy as np
import torch
from octofold_papers.answers.minimax import MinimaxPlayer
from octofold_papers.answers.monte_carlo import MonteCarloPlayer
from octofold_players.endgame.formation import SIX
from octofold_players.endgame.solver import solve
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer
from octofold_players.local_player import best_moves
from octofold_players.ntuple.network import NTupleNetwork
from octofold_players.ntuple.player import NTupleSearch
from octofold_players.perimeter.player import PerimeterSearch
from octofold_players.random_player import RandomPlayer
from octofold_training.games.position_pool import PositionPool
from octofold_training.games.tensor_teacher import TensorTeacher
from octofold_training.learners.ntuple_td import NTupleLearner, NTupleOptions

TUPLES = ((0, 1), (1, 2))
BOARD = np.array([[1, 2, 3, 4, *[0] * 12]], np.uint8)


def searches() -> None:
    """Compile the players that have no network."""
    PerimeterSearch((), 1, 1).prepare()
    solve(SIX, 5)
    players = HeuristicExpectimaxPlayer(), MinimaxPlayer(depth=1), MonteCarloPlayer(runs=1), RandomPlayer()
    for player in players:
        player.next_moves(BOARD)


def networks() -> None:
    """Compile the code that plays and learns with an n-tuple network."""
    NTupleLearner(NTupleOptions(tuples=TUPLES, threads=1)).learn(1)
    network = NTupleNetwork(TUPLES, np.zeros(NTupleNetwork.size(TUPLES), np.float32))
    pool = PositionPool(batch_size=2, slices=1, seed=1)
    pool.warm_up(network)
    moves = best_moves(network.action_values(pool.batch()))
    pool.advance(moves, moves)
    TensorTeacher(network, torch.device("cpu")).action_values(torch.from_numpy(BOARD))
    NTupleSearch(network, 1, (), 1).prepare()
    network.values.setflags(write=False)  # mapped like in a server; numba compiles other code for this type
    NTupleSearch(network, 1, (), 1).prepare()


if __name__ == "__main__":
    # These two share hardly any function, because numba does not lock the files of its cache.
    processes = [multiprocessing.Process(target=each) for each in (searches, networks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(any(process.exitcode for process in processes))
