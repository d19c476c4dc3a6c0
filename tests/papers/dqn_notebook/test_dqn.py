"""Deep Q-learning: games by the rules, exactly the published loss, and runs that continue."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from octofold_game import rules
from octofold_papers.dqn_notebook import dqn
from octofold_papers.dqn_notebook.dqn import DQN, DQNOptions, ReplayBuffer, SingleGame
from octofold_training import checkpoints
from octofold_training.errors import TrainingError
from octofold_training.run.loop import SavedRun, resume, save_state, train

SIMPLE = {"kind": "q_network", "form": "simple", "value_scale": 20}


def run_of(architecture: dict[str, Any] = SIMPLE, **changes: Any) -> DQN:
    return DQN(DQNOptions(**changes), architecture)


@pytest.fixture
def batch() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(2)
    boards, after = torch.randint(0, 8, (2, 50, 16), dtype=torch.uint8)
    return boards, torch.randint(0, 4, (50,)), torch.rand(50), after, torch.rand(50) < 0.3


def test_the_published_loss_is_that_of_the_notebook(batch: tuple[torch.Tensor, ...]) -> None:
    """The notebook's code, with its order of actions; gradients also flow through the target."""
    boards, moves, rewards, after, dones = batch
    run = run_of()
    notebooks_order = torch.tensor([0, 3, 1, 2])  # of up, right, down, left among u, d, l, r
    network = run.network
    current = network(boards.float()).gather(1, notebooks_order[moves].unsqueeze(1))
    following = network(after.float()).max(1)[0]
    following[dones] = 0.0
    target = rewards + (0.9 * following)
    theirs = torch.nn.MSELoss()(current, target.unsqueeze(1))
    ours = run.loss(*batch)
    torch.testing.assert_close(ours, theirs)
    parameters = list(network.parameters())
    for mine, expected in zip(
        *(torch.autograd.grad(loss, parameters) for loss in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(mine, expected)


def test_a_game_follows_the_rules_to_its_end_and_another_begins() -> None:
    game, random = SingleGame(torch.Generator().manual_seed(5)), np.random.default_rng(2)
    score, finished = 0, list[int]()
    for _ in range(2000):
        before = game.boards.numpy().copy()
        np.testing.assert_array_equal(game.legal.numpy(), rules.legal_moves(before))
        move = int(random.choice(np.flatnonzero(game.legal[0].numpy())))
        afterstate, points = rules.slide(before, np.array([move]))
        merges, ended = game.step(move)
        assert merges == np.count_nonzero(before) - np.count_nonzero(afterstate)
        score += int(points[0])
        after = game.boards.numpy()
        if ended:
            assert np.count_nonzero(after) == 2
            finished, score = [*finished, score], 0
        else:
            assert (after != afterstate).sum() == 1
    assert len(finished) > 5
    assert game.scores() == finished


def test_a_run_that_cannot_learn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"replay must .* at least batch_size \(100\), got 50"):
        run_of(replay=50, first_moves=0)
    with pytest.raises(TrainingError, match=r"before its first update, .* increase episodes \(2\)"):
        train(run_of(episodes=2), tmp_path / "run", tmp_path / "net", dqn.CURVES, lambda _: None)
    assert not (tmp_path / "net").exists()


def test_updates_begin_after_the_first_moves() -> None:
    run = run_of(first_moves=60, batch_size=10)
    before = [weights.clone() for weights in run.network.parameters()]
    run.learn(60)
    assert all(map(torch.equal, before, run.network.parameters()))
    run.learn(1)
    assert not any(map(torch.equal, before, run.network.parameters()))


def test_a_run_that_stops_before_its_first_update_saves_the_initial_network(tmp_path: Path) -> None:
    folders = (tmp_path / "run", tmp_path / "net")
    options: dict[str, Any] = {"first_moves": 300, "episodes": 8}
    for updates in (False, True):  # each run stops after one call of `learn`, which makes 200 moves
        run = run_of(**options)
        start = [weights.clone() for weights in run.network.parameters()]
        train(run, *folders, dqn.CURVES, lambda _: None, minutes=1e-9)
        assert run.has_learned == updates
        if not updates:
            kept = checkpoints.load(folders[1]).network.parameters()
            assert all(map(torch.equal, start, kept))
    assert run.positions == 400
    assert checkpoints.load(folders[1]).training["positions"] == 400


def test_a_run_ends_with_its_games_and_is_one_stage_in_its_checkpoint_however_often_it_stopped(
    tmp_path: Path,
) -> None:
    few: dict[str, Any] = {"first_moves": 20, "batch_size": 10}
    for episodes in (1, 2):
        run = run_of(episodes=episodes, **few)
        train(run, tmp_path / "run", tmp_path / "net", dqn.CURVES, lambda _: None)
        assert run.episodes == episodes
    checkpoint = checkpoints.load(tmp_path / "net")
    (stage,) = checkpoint.training["stages"]
    assert (stage["positions"], stage["episodes"]) == (checkpoint.training["positions"], 2)
    assert checkpoint.training["episodes"] == 2
    for mine, saved in zip(run.network.parameters(), checkpoint.network.parameters(), strict=True):
        assert torch.equal(mine, saved)


def test_the_replay_keeps_the_latest_moves() -> None:
    replay = ReplayBuffer(5, torch.device("cpu"))
    for first in (0, 3):
        numbers = torch.arange(first, first + 3)
        boards = numbers.to(torch.uint8)[:, None].expand(3, 16)
        replay.add(boards, numbers, numbers.float(), boards, numbers > 4)
    assert len(replay) == 5
    kept = replay.batch(torch.arange(5))
    assert sorted(kept[1].tolist()) == [1, 2, 3, 4, 5]
    for board, move, reward, after, ended in zip(*kept, strict=True):
        assert int(board[7]) == int(after[0]) == int(reward) == int(move)
        assert bool(ended) == (int(move) > 4)


def test_a_continued_run_with_dropout_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    few: dict[str, Any] = {"first_moves": 20, "batch_size": 10}
    dropout = {**SIMPLE, "form": "dropout"}
    run = run_of(dropout, **few)
    run.learn(40)
    save_state(run, tmp_path, SavedRun((), ""))
    run.learn(20)
    resumed = run_of(dropout, **few)
    resume(resumed, tmp_path)
    resumed.learn(20)
    for mine, theirs in zip(resumed.network.parameters(), run.network.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_other_networks_are_refused_and_a_broken_loss_keeps_the_last_state(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match='DQN needs a network of kind = "q_network"'):
        run_of({"kind": "mlp", "dense": [8], "exponents": 16})
    few: dict[str, Any] = {"first_moves": 0, "batch_size": 1}
    train(run_of(episodes=1, **few), tmp_path / "run", tmp_path / "net", dqn.CURVES, lambda _: None)
    before = (tmp_path / "run" / "state.pt").read_bytes()
    broken = run_of(episodes=50, learning_rate=1e30, **few)
    with pytest.raises(TrainingError, match="the loss became"):
        train(broken, tmp_path / "run", tmp_path / "net", dqn.CURVES, lambda _: None)
    assert (tmp_path / "run" / "state.pt").read_bytes() == before
