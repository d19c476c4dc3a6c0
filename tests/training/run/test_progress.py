"""Reports of a run: progress, remaining time, and strength of its network."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from octofold_game.episodes import Episodes
from octofold_game.rules import afterstates
from octofold_training.games.strength import StrengthEstimates, strength
from octofold_training.networks.build import build
from octofold_training.run.progress import Forecast, ProgressLine

NETWORKS: dict[str, dict[str, Any]] = {
    "policy": {"kind": "mlp", "dense": [8], "exponents": 16},
    "value": {"kind": "mlp", "dense": [8], "exponents": 16, "head": "value", "value_scale": 50.0},
    "q_network": {"kind": "q_network", "form": "dropout", "value_scale": 1.0},
    "residual": {"kind": "residual", "channels": 2, "blocks": 1, "head_blocks": 1, "head_width": 4},
}


def test_the_time_left_follows_the_latest_speed() -> None:
    forecast = Forecast()
    assert forecast.left(100.0, 1000, 5000) is None
    assert forecast.left(110.0, 2000, 5000) == pytest.approx(30.0)
    for second in range(60):  # ten times slower from now on
        left = forecast.left(120.0 + second, 2000 + 10 * second, 5000)
    assert left == pytest.approx((5000 - 2590) / 10)
    assert forecast.left(200.0, 6000, 5000) == 0.0


def test_without_a_terminal_progress_lines_are_printed_at_intervals_and_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ProgressLine(every_seconds=60.0) as line:
        line.show("0.1 min  loss 3", 0.25, 90.0)
        line.show("0.2 min  loss 2", 0.5, 60.0)
        line.show("0.3 min  loss 1", 1.01)
    assert capsys.readouterr().err == "0.1 min  loss 3  25%  2 min left\n0.3 min  loss 1  100%\n"


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_strength_is_the_average_of_whole_games(kind: str) -> None:
    """This test plays the games differently, board by board."""
    torch.manual_seed(1)
    network = build(NETWORKS[kind])
    found = strength(network, NETWORKS[kind], games=3, seed=7)
    assert network.training
    scores = [_played(network.eval(), kind, game) for game in range(3)]
    assert found.average == pytest.approx(np.mean(scores))
    assert found.error == pytest.approx(1.96 * np.std(scores, ddof=1) / math.sqrt(3))


@torch.no_grad()
def _played(network: Any, kind: str, game: int) -> int:
    episodes = Episodes(7, [game])
    while True:
        after, rewards, legal = afterstates(episodes.boards)
        boards = torch.from_numpy(after[0] if kind == "value" else episodes.boards)
        one_hot = torch.eye(16)[boards.long()].permute(0, 2, 1).reshape(-1, 16, 4, 4)
        if kind == "policy":
            values = network(one_hot)[0]
        elif kind == "value":
            values = network(one_hot)[:, 0] * 50 + torch.from_numpy(rewards[0])
        elif kind == "q_network":
            values = network(boards.float())[0, [0, 3, 1, 2]]
        else:
            values = network(boards.float().view(-1, 1, 4, 4)).policy[0, [3, 2, 1, 0]]
        values = values.masked_fill(~torch.from_numpy(legal[0]), -math.inf)
        if ended := episodes.step(np.array([int(values.argmax())], np.uint8)):
            return ended[0].score


class Run:
    """The part of a run that strength estimates use."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.architecture = NETWORKS["policy"]
        self.averaged = torch.nn.Module()
        self.averaged.module = build(self.architecture)


def test_estimates_take_a_small_share_of_a_run() -> None:
    run = Run(0.0)
    estimates = StrengthEstimates(games=2)
    measured = []
    for run.seconds in range(0, 300, 10):
        if estimates.if_due(run) is not None:
            measured.append(run.seconds)
    assert measured[0] == 60
    assert np.diff(measured).min() >= 60


def test_slow_test_games_take_at_most_a_twentieth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    run, clock = Run(0.0), itertools.count(0, 30)
    monkeypatch.setattr("octofold_training.games.strength.time.perf_counter", lambda: next(clock))
    estimates = StrengthEstimates(games=2)
    assert estimates.if_due(run) is None
    run.seconds = 60
    assert estimates.if_due(run) is not None  # takes 30 s of simulated time
    run.seconds = 60 + 20 * 30 - 1
    assert estimates.if_due(run) is None
    run.seconds += 1
    assert estimates.if_due(run) is not None
