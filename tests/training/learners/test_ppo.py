"""PPO: what it plays is what it learns from, it gets better, and it keeps near its start."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from octofold_game import rules
from octofold_game.symmetries import CELLS
from octofold_training import checkpoints, cli
from octofold_training.checkpoints import Checkpoint
from octofold_training.errors import TrainingError
from octofold_training.games.environment import Environment
from octofold_training.games.rollouts import Rollouts, Turn, generalized_advantages
from octofold_training.learners.ppo import PPO, PPOOptions, fine_tuning
from octofold_training.networks.value_network import ValueNetwork
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim.optimizer import register_optimizer_step_post_hook

ARCHITECTURE = {"kind": "cnn", "layers": 2, "channels": 16, "exponents": 16}
CPU = torch.device("cpu")


def _options(**changes: Any) -> PPOOptions:
    tiny = PPOOptions(
        games=32,
        horizon=8,
        minibatch_size=64,
        warm_up_moves=0,
        value_head_start=0.0,
        value_units=32,
        positions=1024.0,
    )
    return replace(tiny, **changes)


def _rollouts(games: int) -> Rollouts:
    environment = Environment(games, 16, "points", 0.0, torch.Generator().manual_seed(2))
    return Rollouts(environment, 16, 1.0, torch.float32)


def test_the_move_drawn_on_a_view_is_the_one_played_on_its_board(start: Checkpoint) -> None:
    rollouts, turn = _rollouts(50), Turn.empty(20, 50, CPU)
    rollouts.collect(start.network, ValueNetwork(16, 8), turn)
    rollouts.collect(start.network, ValueNetwork(16, 8), turn)
    for step in range(19):
        views, moves = turn.views[step].numpy(), turn.moves[step].numpy()
        np.testing.assert_array_equal(turn.legal[step].numpy(), rules.legal_moves(views))
        afterstates, points = rules.slide(views, moves)
        np.testing.assert_allclose(turn.rewards[step].numpy(), points / 1000, atol=1e-4)
        next_views = turn.views[step + 1].numpy()[:, None, :]
        under_each_symmetry = afterstates[:, CELLS]
        only_a_spawn_differs = (next_views != under_each_symmetry).sum(axis=2) == 1
        assert (only_a_spawn_differs.any(axis=1) | turn.ended[step].numpy()).all()


def test_moves_are_drawn_with_the_probabilities_that_are_noted(start: Checkpoint) -> None:
    games = 20_000
    rollouts, turn = _rollouts(games), Turn.empty(1, games, CPU)
    board = torch.tensor([1, 2, 3, 4, 2, 3, 4, 5, 1, 0, 2, 1, 5, 6, 7, 8], dtype=torch.uint8)
    state = rollouts.environment.state()
    rollouts.environment.restore(state | {"boards": board.expand(games, 16)})
    rollouts.collect(start.network, ValueNetwork(16, 8), turn)
    assert turn.legal[0].gather(1, turn.moves[0, :, None]).all()
    identity = (turn.views[0] == board).all(dim=1)
    expected = rollouts.log_policy(start.network, board[None], turn.legal[0, identity][:1])[0].exp()
    drawn = turn.moves[0, identity]
    assert len(drawn) > games / 16
    shares = torch.bincount(drawn, minlength=4) / len(drawn)
    assert shares.tolist() == pytest.approx(expected.tolist(), abs=0.05)
    noted = turn.log_probabilities[0, identity].exp()
    torch.testing.assert_close(noted, expected[drawn], rtol=1e-3, atol=1e-4)


def test_no_move_of_a_turn_reads_a_value_back_from_the_device(start: Checkpoint) -> None:
    rollouts, turn, value_network = _rollouts(16), Turn.empty(3, 16, CPU), ValueNetwork(16, 8)
    with FakeTensorMode(allow_non_fake_inputs=True):  # its tensors have no values that could be read
        rollouts.collect(start.network, value_network, turn)


@pytest.mark.parametrize(
    ("minibatch_size", "epochs", "updates"),
    [(256, 1, 1), (4096, 1, 1), (256, 2, 2), (100, 1, 3), (100, 2, 6)],
)
def test_weights_are_averaged_over_the_positions_that_updates_really_have(
    start: Checkpoint, minibatch_size: int, epochs: int, updates: int
) -> None:
    """A turn of 256 positions has so many updates; the last one of a pass has what the others left."""
    averaged, turns = 2000.0, 3
    options = _options(
        minibatch_size=minibatch_size, epochs=epochs, averaged=averaged, learning_rate=3e-3, positions=1e6
    )
    run = PPO(options, start, CPU)
    weights: list[Tensor] = []
    after_each_update = register_optimizer_step_post_hook(lambda *_: weights.append(_weights(run.network)))
    for _ in range(turns):
        run.learn()
    after_each_update.remove()
    assert len(weights) == turns * updates
    share = 256 / updates / averaged  # of the newest weights
    average = weights[0]
    for newest in weights[1:]:
        average = (1 - share) * average + share * newest
    torch.testing.assert_close(_weights(run.averaged.module), average, rtol=0, atol=1e-6)


def _weights(network: nn.Module) -> Tensor:
    """All weights of a network in one row, in float64."""
    return torch.cat([each.detach().double().flatten() for each in network.parameters()])


def test_a_turn_of_one_position_is_refused(start: Checkpoint) -> None:
    with pytest.raises(TrainingError, match="a turn needs two positions at least"):
        PPO(_options(games=1, horizon=1), start, CPU)


def test_advantages_are_decayed_sums_of_what_the_values_did_not_foretell() -> None:
    turn = Turn.empty(3, 2, CPU)
    turn.rewards.copy_(torch.tensor([[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]]))
    turn.values.copy_(torch.tensor([[10.0, 10.0], [20.0, 20.0], [30.0, 30.0]]))
    turn.ended.copy_(torch.tensor([[False, False], [False, True], [False, False]]))
    advantages = generalized_advantages(turn, torch.tensor([40.0, 40.0]), discount=0.5, trace_decay=0.5)
    last = 4 + 0.5 * 40 - 30
    middle, middle_at_end = 2 + 0.5 * 30 - 20 + 0.25 * last, 2 - 20
    first = [1 + 0.5 * 20 - 10 + 0.25 * later for later in (middle, middle_at_end)]
    assert advantages.flatten().tolist() == pytest.approx([*first, middle, middle_at_end, last, last])


def test_following_new_targets_changes_the_scale_but_no_value() -> None:
    torch.manual_seed(3)
    network = ValueNetwork(16, 8)
    torch.nn.init.normal_(network.last.weight)
    one_hot = torch.rand(100, 16, 4, 4)
    for center in (300.0, -5.0):
        before = network.values(one_hot).detach()
        targets = center + 50 * torch.randn(1000)
        network.follow(targets)
        torch.testing.assert_close(network.values(one_hot).detach(), before, rtol=1e-4, atol=1e-3)
        if center == 300.0:  # the first targets are all there is to go by
            normalized = network.normalized(targets)
            assert (normalized.mean().item(), normalized.std().item()) == pytest.approx((0, 1), abs=0.01)


@pytest.mark.long  # a whole training
def test_a_policy_that_knows_nothing_gets_better(start: Checkpoint) -> None:
    """In the last third of such runs, policies that do not learn score 1,098 with a standard deviation of 29
    over six seeds, and those that learn 1,332 with one of 45: the limit is three of them from both. Fewer
    than one in a thousand fails by chance, or passes without learning.
    """
    options = _options(
        games=128, horizon=16, minibatch_size=512, epochs=3, learning_rate=5e-3, value_learning_rate=3e-3,
        kl_weight=0.0, entropy_weight=0.01, discount=0.99, temperature=1.0, clip=0.2, cool_down=0.1,
        rewards="merges", restart_share=0.0, positions=120e3,
    )  # fmt: skip
    run = PPO(options, start, CPU)
    reports = []
    while run.positions < options.positions:
        reports.append(run.learn())

    last = reports[-(len(reports) // 3) :]
    scores = sum(each.games * (each.average_score or 0.0) for each in last)
    assert scores / sum(each.games for each in last) > 1190


def test_the_penalty_keeps_the_policy_near_its_start(start: Checkpoint) -> None:
    def divergence(kl_weight: float) -> float:
        run = PPO(_options(learning_rate=3e-3, epochs=4, kl_weight=kl_weight, positions=1e9), start, CPU)
        for _ in range(6):
            progress = run.learn()
        return progress.kl

    assert divergence(kl_weight=5.0) < divergence(kl_weight=0.0) / 3


def test_the_value_network_learns_before_the_policy(start: Checkpoint) -> None:
    run = PPO(_options(value_head_start=512.0, positions=5_120.0), start, CPU)
    before = {name: value.clone() for name, value in run.network.state_dict().items()}
    value_before = run.value_network.last.weight.clone()
    run.learn()
    run.learn()
    assert all(torch.equal(value, before[name]) for name, value in run.network.state_dict().items())
    assert not torch.equal(run.value_network.last.weight, value_before)
    run.learn()
    assert not any(torch.equal(value, before[name]) for name, value in run.network.state_dict().items())


def test_after_the_warm_up_games_are_of_all_ages(start: Checkpoint) -> None:
    run = PPO(_options(games=100, warm_up_moves=60, restart_share=0.5), start, CPU)
    run.warm_up()
    tiles = (1 << run.environment.boards.int()).where(run.environment.boards > 0, 0).sum(dim=1)
    assert (tiles <= 8).float().mean().item() == pytest.approx(0.5, abs=0.2)
    assert (tiles > 60).float().mean() > 0.1


def test_games_that_never_start_from_others_have_no_warm_up(start: Checkpoint) -> None:
    run = PPO(_options(warm_up_moves=60, restart_share=0.0), start, CPU)
    first = run.environment.boards.clone()
    run.warm_up()
    assert torch.equal(run.environment.boards, first)


def test_the_network_at_the_start_is_never_overwritten(start_folder: Path) -> None:
    with pytest.raises(TrainingError, match="replace the initial network"):
        fine_tuning(_options(start=str(start_folder)), start_folder, CPU)


def test_a_value_network_is_no_start(start: Checkpoint) -> None:
    architecture = ARCHITECTURE | {"head": "value", "value_scale": 100.0}
    with pytest.raises(TrainingError, match="needs a policy network"):
        PPO(_options(), Checkpoint(start.network, architecture, {}, ""), CPU)


def _recipe(folder: Path, start: Path) -> Path:
    file = folder / "tiny-ppo.toml"
    sizes = "positions = 500\ngames = 16\nhorizon = 4\nwarm_up_moves = 4\nvalue_units = 8\n"
    file.write_text(f"[ppo]\nstart = '{start}'\n{sizes}")
    return file


def test_the_command_follows_a_recipe(
    start_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--state", str(tmp_path / "run"), "--checkpoint", str(tmp_path / "net"), "--device", "cpu"]
    assert cli.main(["ppo", str(_recipe(tmp_path, start_folder)), *folders]) == 0
    assert "curves.png" in capsys.readouterr().out
    assert checkpoints.load(tmp_path / "net").training["positions"] == 512


@pytest.mark.parametrize(
    ("channels", "message"),
    [
        ("channels = 24", "has channels = 16, but the recipe has channels = 24"),
        ("chanels = 16", "[network]"),
    ],
)
def test_a_recipe_with_another_network_than_its_start_is_refused(
    start_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], channels: str, message: str
) -> None:
    recipe = _recipe(tmp_path, start_folder)
    network = f'[network]\nkind = "cnn"\nlayers = 2\nexponents = 16\n{channels}\n'
    recipe.write_text(recipe.read_text() + network)
    folders = ["--state", str(tmp_path / "run"), "--checkpoint", str(tmp_path / "net"), "--device", "cpu"]
    assert cli.main(["ppo", str(recipe), *folders]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_start_that_is_missing_ends_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = _recipe(tmp_path, tmp_path / "nowhere")
    assert cli.main(["ppo", str(recipe), "--state", str(tmp_path / "run"), "--device", "cpu"]) == 1
    error = capsys.readouterr().err
    assert f"there is no {tmp_path / 'nowhere'}" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()
