"""LazyZero: rollouts exactly as published, whole games in the replay, and a network that learns."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from octofold_game.rules import legal_moves
from octofold_game.symmetries import CELLS, MOVES
from octofold_papers.turbozero import lazyzero
from octofold_papers.turbozero.lazyzero import (
    GameReplayBuffer,
    LazyZero,
    LazyZeroOptions,
    TensorRollouts,
    UnfinishedGames,
)
from octofold_papers.turbozero.matrix_form import MatrixForm
from octofold_training import checkpoints
from octofold_training.errors import TrainingError
from octofold_training.games.tensor_environment import Environment, MoveTable
from octofold_training.networks.build import build
from octofold_training.networks.interfaces import BoardEncoder
from octofold_training.run.loop import SavedRun, resume, save_state, train

RESIDUAL = {"kind": "residual", "channels": 4, "blocks": 1, "head_blocks": 1, "head_width": 16}
SMALL: dict[str, Any] = {
    "games": 32,
    "rollouts": 6,
    "replay": 100,
    "first_games": 16,
    "batch_size": 128,
    "updates": 4,
    "learning_rate": 3e-3,
}
CPU = torch.device("cpu")


def run_of(architecture: dict[str, Any] = RESIDUAL, **changes: Any) -> LazyZero:
    return LazyZero(LazyZeroOptions(**SMALL | changes), architecture)


@pytest.fixture(scope="module")
def boards() -> torch.Tensor:
    """Boards of random games after 60 moves."""
    environment = Environment(64, 17, torch.Generator().manual_seed(5))
    for _ in range(60):
        environment.step((torch.rand(64, 4) * environment.legal).argmax(dim=1))
    return environment.boards


def test_the_matrix_form_answers_like_the_network(boards: torch.Tensor) -> None:
    torch.manual_seed(3)
    network = build(RESIDUAL)
    encode = BoardEncoder(network.interface, 18, torch.float32)  # type: ignore[arg-type]
    for _ in range(3):  # gives the batch norms statistics that shift and scale
        network(encode(boards))
    form = MatrixForm(network, torch.float32)  # type: ignore[arg-type]
    assert network.training
    with torch.no_grad():
        policy, values = network.eval()(encode(boards))
    torch.testing.assert_close(form.logits(boards), policy[:, [3, 2, 1, 0]], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(form.values(boards), values[:, 0], rtol=1e-3, atol=1e-4)


class FixedPolicy:
    """A fake network with a fixed policy, and the number of empty cells as its value."""

    def __init__(self, *policy: float) -> None:
        self.policy = torch.tensor(policy).log()

    def logits(self, boards: torch.Tensor) -> torch.Tensor:
        return self.policy.expand(len(boards), 4)

    def values(self, boards: torch.Tensor) -> torch.Tensor:
        return (boards == 0).sum(dim=1).float()


def uniform_for(boards: torch.Tensor) -> Callable[[int], torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return lambda columns: torch.rand(len(boards), columns, generator=generator)


def shares_of(form: Any, boards: torch.Tensor, **options: Any) -> torch.Tensor:
    table = MoveTable(CPU)
    search = TensorRollouts(**{"depth": 3, "puct": 1.0} | options, table=table)
    return search.shares(form, boards, table.legal(boards), uniform_for(boards))


def test_every_legal_move_begins_a_rollout_and_no_other_does(boards: torch.Tensor) -> None:
    legal = torch.from_numpy(legal_moves(boards.numpy()))
    shares = shares_of(FixedPolicy(0.97, 0.01, 0.01, 0.01), boards, rollouts=4, depth=2)
    torch.testing.assert_close(shares.sum(dim=1), torch.ones(len(boards)))
    assert torch.equal(shares > 0, legal)


def test_rollouts_begin_as_puct_says() -> None:
    """Values depend only on the first move: moving sideways leaves 13 empty cells, up and down 14."""
    board = torch.tensor([[1] + [0] * 3 + [1] + [0] * 7 + [2] + [0] * 3], dtype=torch.uint8)
    policy, c, rollouts = [0.1, 0.6, 0.1, 0.2], 2.0, 40
    shares = shares_of(FixedPolicy(*policy), board, rollouts=rollouts, depth=1, puct=c)
    legal = legal_moves(board.numpy())[0]
    values = np.array([13.0, 12.0, 13.0, 12.0])
    prior = np.where(legal, policy, 0) / np.array(policy)[legal].sum()
    counts = np.zeros(4)
    for rollout in range(rollouts):
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = np.where(
                counts == 0, 1e6 + prior, values + c * prior * np.sqrt(rollout + 1) / (1 + counts)
            )
        counts[np.where(legal, scores, -np.inf).argmax()] += 1
    np.testing.assert_allclose(shares[0].numpy(), counts / rollouts)


def test_a_rollout_that_ends_in_a_lost_game_counts_nothing() -> None:
    """Only one move is left, and the spawn after it ends nearly all games."""
    board = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 8, 8]], dtype=torch.uint8)
    search = TensorRollouts(rollouts=1, depth=3, puct=1.0, table=MoveTable(CPU))
    moves = torch.full((200,), 1)

    class One(FixedPolicy):
        def values(self, boards: torch.Tensor) -> torch.Tensor:
            return torch.ones(len(boards))

    one: Any = One(1, 1, 1, 1)
    found = search.rollout(one, board.expand(200, 16), moves, uniform_for(moves))
    lost = torch.tensor([[1, 2, 1, 2, 2, 1, 2, 1] * 2] * 5, dtype=torch.uint8)
    over = search.rollout(one, lost, moves[:5], uniform_for(lost))
    assert set(found.tolist()) <= {0.0, 1.0}
    assert over.tolist() == [0.0] * 5


def test_the_replay_keeps_whole_games_with_the_number_of_remaining_moves() -> None:
    unfinished, replay = UnfinishedGames(3, CPU), GameReplayBuffer(3)
    for move in range(300):
        positions = torch.tensor(
            [[game, move // 256, move % 256] + [0] * 13 for game in range(3)], dtype=torch.uint8
        )
        unfinished.add(positions, torch.full((3, 4), 0.25))
        ended = torch.tensor([move == 9, move == 299, move in (4, 299)])
        for game in unfinished.take(ended):
            replay.add(*game)
    assert [len(boards) for boards, _ in replay._games] == [10, 300, 295]  # the last three of four games
    boards, shares, left = replay.batch(500, np.random.default_rng(1))
    length = torch.tensor([10, 300, 295])[boards[:, 0].long()]
    began = torch.tensor([0, 0, 5])[boards[:, 0].long()]
    at = boards[:, 1].long() * 256 + boards[:, 2] - began
    assert torch.equal(left.long(), length - at)
    assert set(boards[:, 0].tolist()) == {0, 1, 2}
    assert torch.equal(shares, torch.full((500, 4), 0.25))


def test_positions_are_learned_under_the_four_rotations(boards: torch.Tensor) -> None:
    """An update gets turned boards, turned shares, and the logarithms of the numbers of remaining moves."""
    run = run_of()
    seen: list[tuple[torch.Tensor, ...]] = []
    run.replay.add(boards[:1], torch.tensor([[0.7, 0.2, 0.1, 0.0]]).half())
    losses = run.losses

    def noted(
        boards: torch.Tensor, shares: torch.Tensor, left: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append((boards, shares, left))
        return losses(boards, shares, left)

    run.losses = noted  # type: ignore[method-assign]
    run._update()
    ((views, shares, left),) = seen
    expected = {
        (
            tuple(boards[0, cells].tolist()),
            tuple(np.argsort(np.argsort(-np.array([0.7, 0.2, 0.1, 0.0])[np.argsort(moves)])).tolist()),
        )
        for cells, moves in zip(CELLS[:4], MOVES[:4], strict=True)
    }
    found = {
        (tuple(view.tolist()), tuple((-share).argsort().argsort().tolist()))
        for view, share in zip(views, shares, strict=True)
    }
    assert found == expected
    assert left.tolist() == [1.0] * len(views)
    network = run.network
    policy, values = network(run._encode(views))
    by_move = policy[:, [3, 2, 1, 0]]
    theirs = torch.nn.functional.cross_entropy(by_move, shares) + values[:, 0].square().mean()
    torch.testing.assert_close(losses(views, shares, left)[0], theirs)
    assert math.isfinite(theirs.item())


def test_a_continued_lazyzero_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    options: dict[str, Any] = {"games": 16, "rollouts": 2, "first_games": 2, "batch_size": 16}
    whole, first, second = (run_of(**options) for _ in range(3))
    whole.learn(150)
    first.learn(120)
    assert first.episodes >= 2
    save_state(first, tmp_path, SavedRun((), ""))
    resume(second, tmp_path)
    second.learn(30)
    assert (second.positions, second.episodes) == (whole.positions, whole.episodes)
    for mine, theirs in zip(second.network.parameters(), whole.network.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    with pytest.raises(TrainingError, match="but the recipe has"):
        resume(run_of({**RESIDUAL, "blocks": 2}), tmp_path)
    with pytest.raises(TrainingError, match="the run has games = 16, but the recipe has games = 32"):
        resume(run_of(), tmp_path)


def test_a_run_ends_with_its_games_and_leaves_a_checkpoint(tmp_path: Path) -> None:
    run = run_of(episodes=3, games=8, rollouts=1)
    train(run, tmp_path / "run", tmp_path / "net", lazyzero.CURVES, lambda _: None)
    assert run.finished
    checkpoint = checkpoints.load(tmp_path / "net")
    assert checkpoint.training["episodes"] == run.episodes >= 3
    for mine, saved in zip(
        run.network.state_dict().values(), checkpoint.network.state_dict().values(), strict=True
    ):
        assert torch.equal(mine, saved)


class SamePolicy(TensorRollouts):
    """A fake network with the same policy on every board."""

    def shares(self, _form: Any, boards: torch.Tensor, *_: Any) -> torch.Tensor:
        return torch.tensor([[0.1, 0.2, 0.3, 0.4]]).expand(len(boards), 4)


@pytest.mark.parametrize(("temperature", "expected"), [(0.01, {3}), (100.0, {0, 1, 2, 3})])
def test_moves_are_sampled_from_the_shares_at_the_temperature(temperature: float, expected: set[int]) -> None:
    run = run_of(temperature=temperature)
    run._search = SamePolicy(1, 1, 1.0, run.environment.table)
    made: list[int] = []
    step = run.environment.step

    def noted(moves: torch.Tensor) -> torch.Tensor:
        made.extend(moves.tolist())
        return step(moves)

    run.environment.step = noted  # type: ignore[method-assign]
    run._play()
    assert set(made) == expected


def test_other_networks_are_refused_and_a_broken_loss_keeps_the_last_state(tmp_path: Path) -> None:
    with pytest.raises(
        TrainingError, match='LazyZero needs a network with policy and value: kind = "residual"'
    ):
        run_of({"kind": "mlp", "dense": [8], "exponents": 16})
    options: dict[str, Any] = {"games": 8, "rollouts": 1, "first_games": 1, "batch_size": 8}
    train(run_of(episodes=2, **options), tmp_path / "run", tmp_path / "net", lazyzero.CURVES, lambda _: None)
    before = (tmp_path / "run" / "state.pt").read_bytes()
    broken = run_of(episodes=50, learning_rate=1e30, **options)
    with pytest.raises(TrainingError, match="the loss became"):
        train(broken, tmp_path / "run", tmp_path / "net", lazyzero.CURVES, lambda _: None)
    assert (tmp_path / "run" / "state.pt").read_bytes() == before


@pytest.fixture(scope="module")
def learned() -> LazyZero:
    run = run_of(rollouts=4)
    while run.episodes < 60:
        run.learn(10)
    return run


@pytest.fixture(scope="module")
def other_games() -> GameReplayBuffer:
    """A replay of games by an untrained network."""
    run = run_of(seed=101, rollouts=4, first_games=50)
    while run.episodes < 30:
        run.learn(10)
    return run.replay


@pytest.mark.long  # a whole training
def test_the_value_learns_to_predict_how_long_a_game_lasts(
    learned: LazyZero, other_games: GameReplayBuffer
) -> None:
    """In other games, an untrained value explains none of the variance of the logarithm of the remaining
    moves. Networks of six seeds explained 40% with a standard deviation of 6%: fewer than one in ten thousand
    fails by chance.
    """
    boards, _, left = other_games.batch(2000, np.random.default_rng(1))

    def explained(run: LazyZero) -> float:
        errors = MatrixForm(run.network, torch.float32).values(boards) - left.log()
        return 1 - float(errors.square().mean() / left.log().var())

    assert explained(run_of(rollouts=4)) < 0
    assert explained(learned) > 0.15


@pytest.mark.long
def test_the_policy_learns_the_results_of_the_rollouts(
    learned: LazyZero, other_games: GameReplayBuffer
) -> None:
    """A uniform policy has a cross-entropy of ln 4 = 1.386 with the shares of other games' rollouts. Networks
    of six seeds had 1.377 with a standard deviation of 0.002; the minimum is 1.21. Fewer than one in seven
    hundred fails by chance.
    """
    boards, shares, _ = other_games.batch(2000, np.random.default_rng(1))
    logits = MatrixForm(learned.network, torch.float32).logits(boards)
    assert float(torch.nn.functional.cross_entropy(logits, shares.float())) < math.log(4) - 0.003
