"""The player of a LazyZero network keeps the promises of local players and makes the move with most
rollouts."""

from pathlib import Path

import numpy as np
import pytest
import torch
from octofold_client.contenders.local_players import local_player
from octofold_client.errors import EvaluationError
from octofold_game.bitboards import pack
from octofold_game.rules import legal_moves
from octofold_game.spawns import SpawnStream
from octofold_papers.turbozero.lazyzero import TensorRollouts
from octofold_papers.turbozero.matrix_form import MatrixForm
from octofold_papers.turbozero.network import ResidualNetwork
from octofold_papers.turbozero.player import LazyZeroPlayer
from octofold_training import checkpoints
from octofold_training.games.tensor_environment import Environment, MoveTable
from octofold_training.networks.build import build

NETWORK = {"kind": "residual", "channels": 4, "blocks": 1, "head_blocks": 1, "head_width": 16}


def written(folder: Path, seed: int = 1, network: dict[str, object] = NETWORK) -> Path:
    torch.manual_seed(seed)
    checkpoints.save(folder, build(network), network, {})
    return folder


@pytest.fixture(scope="module")
def boards() -> np.ndarray:
    """Boards `[31, 16]` of random games after some moves; the first game is over."""
    environment = Environment(31, 17, torch.Generator().manual_seed(5))
    for _ in range(60):
        environment.step((torch.rand(31, 4) * environment.legal).argmax(dim=1))
    boards = environment.boards.numpy().copy()
    boards[0] = [1, 2, 1, 2, 2, 1, 2, 1] * 2
    return boards


def test_moves_are_legal_and_depend_only_on_the_board(tmp_path: Path, boards: np.ndarray) -> None:
    player = LazyZeroPlayer(written(tmp_path / "net"), rollouts=12)
    values = player.action_values(boards)
    assert (np.isfinite(values) == legal_moves(boards)).all()
    assert values[1:][np.isfinite(values[1:])].sum() == 12 * 30  # each rollout begins with one legal move
    moves = player.next_moves(boards)
    assert moves[0] == -1
    assert (moves[1:] == values[1:].argmax(axis=1)).all()
    assert np.array_equal(player.action_values(boards[::-1]), values[::-1])
    for board, alone in zip(boards, values, strict=True):
        assert np.array_equal(player.action_values(board[None])[0], alone)
    assert not np.array_equal(
        LazyZeroPlayer(tmp_path / "net", rollouts=12, seed=1).action_values(boards), values
    )


def test_the_player_makes_the_rollouts_of_training(tmp_path: Path, boards: np.ndarray) -> None:
    """Both use the random numbers of the board's stream."""
    player = LazyZeroPlayer(written(tmp_path / "net"), rollouts=40)
    values = player.action_values(boards)[1:]
    legal = legal_moves(boards[1:])
    search = TensorRollouts(40, 3, 1.0, MoveTable(torch.device("cpu")))
    form = MatrixForm(build_from(tmp_path / "net"), torch.float32)
    stream, cells, drawn = SpawnStream(0), pack(boards[1:])[:, None], 0

    def uniform(columns: int) -> torch.Tensor:
        nonlocal drawn
        bits = stream.bits(cells, np.arange(drawn, drawn + columns, dtype=np.uint64)[None])
        drawn += columns
        return torch.from_numpy((bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24))

    shares = search.shares(form, torch.from_numpy(boards[1:]), torch.from_numpy(legal), uniform)
    assert np.array_equal(np.where(legal, np.rint(shares.numpy() * 40), -np.inf), values)


def build_from(folder: Path) -> ResidualNetwork:
    network = checkpoints.load(folder).network
    assert isinstance(network, ResidualNetwork)
    return network


def test_the_digest_covers_weights_and_options_but_not_the_path(tmp_path: Path) -> None:
    one, same, other = (written(tmp_path / name, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    digests = [LazyZeroPlayer(folder).sha256 for folder in (one, same, other)]
    assert digests[0] == digests[1] != digests[2]
    assert LazyZeroPlayer(one, rollouts=50).sha256 != digests[0]
    assert LazyZeroPlayer(one, rollouts=50).name == f"lazyzero:{one},rollouts=50"


def test_a_checkpoint_that_lazyzero_cannot_play_is_named(tmp_path: Path) -> None:
    net = written(tmp_path / "net")
    cnn = written(tmp_path / "cnn", network={"kind": "q_network", "form": "simple", "value_scale": 20})
    for spec, message in (
        (
            f"lazyzero:{tmp_path}/nowhere",
            f"player lazyzero:{tmp_path}/nowhere: there is no {tmp_path}/nowhere",
        ),
        (
            f"lazyzero:{cnn}",
            f'player lazyzero:{cnn}: {cnn} must be a network of kind = "residual" to play lazyzero',
        ),
        (
            f"lazyzero:{net},rollouts=0",
            f"player lazyzero:{net},rollouts=0: rollouts must be from 1 to 1000000, got 0",
        ),
        (
            f"lazyzero:{net},puct=nan",
            f"player lazyzero:{net},puct=nan: puct must be from 0 to 1000000.0, got nan",
        ),
    ):
        with pytest.raises(EvaluationError) as error:
            local_player(spec)
        assert str(error.value) == message
