"""A small untrained network and boards from real games, for all tests of the export."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from octofold_export.weights import PolicyNetwork, policy_network
from octofold_game.episodes import Episodes
from octofold_game.rules import legal_moves
from octofold_training import checkpoints
from octofold_training.networks import CNN

ARCHITECTURE = {"kind": "cnn", "layers": 3, "channels": 24, "exponents": 16}


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def module(boards: NDArray[np.uint8]) -> CNN:
    """A network that likes to move where the large tiles are: random features, a dense layer fitted to them.

    A network without preferences would change its mind with every rounding.
    """
    torch.manual_seed(3)
    network = CNN(layers=3, channels=24, exponents=16).eval()
    one_hot = torch.eye(16)[torch.from_numpy(boards.astype(np.int64))].view(-1, 4, 4, 16).permute(0, 3, 1, 2)
    features = []
    network.dense.register_forward_pre_hook(lambda _, inputs: features.append(inputs[0]))
    square = boards.reshape(-1, 4, 4).astype(np.float32)
    up = square[:, :2].sum(axis=(1, 2)) - square[:, 2:].sum(axis=(1, 2))
    left = square[:, :, :2].sum(axis=(1, 2)) - square[:, :, 2:].sum(axis=(1, 2))
    liking = torch.from_numpy(np.stack([up, -left, -up, left], axis=1) / 4)
    with torch.no_grad():
        network(one_hot)
        gram = features[0].T @ features[0]
        ridge = 0.5 * gram.diagonal().mean() * torch.eye(len(gram))
        network.dense.weight.copy_(torch.linalg.solve(gram + ridge, features[0].T @ liking).T)
    network.dense._forward_pre_hooks.clear()
    return network


@pytest.fixture(scope="session")
def network(module: CNN) -> PolicyNetwork:
    return policy_network(module)


@pytest.fixture(scope="session")
def checkpoint(module: CNN, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "small"
    checkpoints.save(folder, module, ARCHITECTURE, training={})
    return folder


@pytest.fixture(scope="session")
def boards() -> NDArray[np.uint8]:
    """`[M, 16]`: all boards of some games of random legal moves, with tiles spread over all exponents."""
    random = np.random.default_rng(5)
    episodes = Episodes(seed=5, games=range(24))
    seen = []
    while len(episodes.running):
        seen.append(episodes.boards)
        preferences = np.where(legal_moves(episodes.boards), random.random((len(episodes.boards), 4)), -1)
        episodes.step(preferences.argmax(axis=1))
    played = np.concatenate(seen)
    # Random games end at small tiles: lift the tiles of some boards as a whole, which keeps what is legal.
    lifts = random.integers(0, 16 - played.max(axis=1))
    lifted = np.where(played > 0, played + lifts[:, None], 0).astype(np.uint8)
    return random.permutation(lifted)


@pytest.fixture(scope="session")
def boards_file(boards: NDArray[np.uint8], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("boards") / "boards.npy"
    np.save(file, boards)
    return file
