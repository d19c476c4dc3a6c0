"""Distillation: the student learns the teacher's preferences, and the command keeps its progress."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from octofold_players.ntuple.network import NTupleNetwork
from octofold_training.checkpoints import Checkpoint, CheckpointError
from octofold_training.errors import TrainingError
from octofold_training.games.tensor_teacher import TensorTeacher
from octofold_training.learners import student_run
from octofold_training.learners.device_distil import DeviceDistillation, DeviceDistilOptions
from octofold_training.learners.distil import Distillation
from octofold_training.learners.student_run import DistilOptions, _LatestLabels, distillation_loss
from octofold_training.run.loop import SavedRun, resume, save_state
from torch import nn

ARCHITECTURE = {"kind": "cnn", "layers": 2, "channels": 16, "exponents": 16}


def _options(**changes: Any) -> DistilOptions:
    return replace(DistilOptions(batch_size=64, slices=2, warm_up=64.0), **changes)


def test_the_student_learns_to_agree_with_the_teacher(teacher: NTupleNetwork) -> None:
    """With five seeds, the agreement rose by 6.9 points with a standard deviation of 1.0, and regret fell by
    18% with one of 4%. A student that does not learn gains nothing. Fewer than one in a thousand fails by
    chance.
    """
    pairs = {"kind": "pairs", "patterns": ["lines"], "features": 8, "dense": [32], "exponents": 16}
    run = Distillation(_options(temperature=30.0, learning_rate=1e-2), pairs, teacher)
    run.warm_up()
    first = run.learn(60)
    run.learn(300)
    last = run.learn(60)
    assert last.accuracy > first.accuracy + 0.025
    assert last.regret < first.regret


class _EquivariantStudent(nn.Module):
    """A student that prefers the side with the larger exponents: turning the board turns its logits."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, one_hot: torch.Tensor) -> torch.Tensor:
        exponents = (one_hot.float() * torch.arange(16).view(16, 1, 1)).sum(dim=1)  # [N, 4, 4]
        sides = [exponents[:, 0], exponents[:, :, 3], exponents[:, 3], exponents[:, :, 0]]
        return torch.stack([side.sum(dim=1) for side in sides], dim=1) * self.scale


def test_the_symmetry_of_a_position_does_not_change_its_target(
    teacher: NTupleNetwork,
) -> None:
    outcomes = []
    for seed in (1, 2):
        run = Distillation(_options(), ARCHITECTURE, teacher)
        run.pool.warm_up(teacher)
        run.network = _EquivariantStudent()
        run._generator.manual_seed(seed)
        progress = run.learn(5)
        outcomes.append((progress.loss, progress.accuracy, run.pool.boards.tolist()))
    assert outcomes[0] == outcomes[1]


def test_labels_look_as_many_moves_ahead_as_the_recipe_says(teacher: NTupleNetwork) -> None:
    on_device = DeviceDistilOptions(batch_size=64, slices=1, depth=2, warm_up_moves=50)
    for run in (
        Distillation(_options(depth=2), ARCHITECTURE, teacher),
        DeviceDistillation(on_device, ARCHITECTURE, teacher),
    ):
        run.warm_up()
        boards, values = run._label()
        expected = TensorTeacher(teacher, torch.device("cpu")).action_values(boards, depth=2)
        torch.testing.assert_close(values, expected)


def test_positions_are_learned_from_again_once_there_are_enough(
    teacher: NTupleNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(student_run, "_LATEST_BATCHES", 4)
    run = Distillation(_options(reuse=3, positions=11 * 64.0), ARCHITECTURE, teacher)
    run.warm_up()
    run.learn(3)
    assert run.positions == 3 * 64
    assert run._latest is not None
    with patch.object(run._latest, "draw", wraps=run._latest.draw) as draw:
        run.learn(6)
        assert (run.positions, draw.call_count) == ((3 + 2 * 3) * 64, 2 * 2)
    run.learn()
    assert run.positions == 11 * 64  # the run ends in the middle of a batch's updates


def test_the_latest_labels_replace_the_oldest() -> None:
    latest = _LatestLabels(6, torch.device("cpu"))
    for batch in range(5):
        latest.add(torch.full((2, 16), batch, dtype=torch.uint8), torch.full((2, 4), float(batch)))
        assert latest.is_full == (batch >= 2)
    boards, values = latest.draw(1000, torch.Generator().manual_seed(1))
    assert boards.unique().tolist() == [2, 3, 4]
    assert torch.equal(boards[:, :4].float(), values)


def test_the_learning_rate_rises_stays_and_falls_to_zero(teacher: NTupleNetwork) -> None:
    options = _options(positions=10_000.0, warm_up=640.0, cool_down=0.4, learning_rate=1.0)
    run = Distillation(options, ARCHITECTURE, teacher)
    rates = []
    for positions in (0, 576, 3_000, 6_000, 8_000, 10_000):
        run.positions = positions
        rates.append(round(run.learning_rate(), 9))
    assert rates == [0.1, 1.0, 1.0, 1.0, 0.5, 0.0]


def test_only_legal_moves_count_in_the_loss() -> None:
    values = torch.tensor([[100.0, 0.0, -torch.inf, -torch.inf], [7.0, -torch.inf, -torch.inf, -torch.inf]])
    logits = torch.tensor([[1.0, 0.0, 40.0, -40.0], [-3.0, 9.0, 9.0, 9.0]], requires_grad=True)
    loss = distillation_loss(logits, values, 100.0)
    assert loss.item() == pytest.approx(0.0, abs=1e-6)  # the preferences among legal moves are the teacher's
    (gradient,) = torch.autograd.grad(loss, logits)
    assert (gradient[values.isinf()] == 0).all()


def test_a_network_that_cannot_learn_by_distillation_is_refused(teacher: NTupleNetwork) -> None:
    with pytest.raises(TrainingError, match='head = "policy"'):
        Distillation(_options(), ARCHITECTURE | {"head": "value", "value_scale": 100.0}, teacher)
    with pytest.raises(TrainingError, match="games need a network with at least 16 exponents, got 12"):
        Distillation(_options(), ARCHITECTURE | {"exponents": 12}, teacher)


def test_a_run_starts_from_a_checkpoint_and_continues_without_it(
    teacher: NTupleNetwork, start: Checkpoint, start_folder: Path, tmp_path: Path
) -> None:
    (folder := tmp_path / "start").symlink_to(start_folder)
    first = Distillation(_options(start=str(folder)), ARCHITECTURE, teacher)
    first.warm_up()
    for mine, theirs in zip(first.network.parameters(), start.network.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    first.learn(2)
    save_state(first, tmp_path, SavedRun((), ""))
    folder.unlink()
    later = Distillation(_options(start=str(folder)), ARCHITECTURE, teacher)
    resume(later, tmp_path)
    assert later.origin["start"] == {"sha256": start.sha256, "stages": []}


def test_a_start_from_another_network_or_a_missing_one_is_refused(
    teacher: NTupleNetwork, start_folder: Path, tmp_path: Path
) -> None:
    other = Distillation(_options(start=str(start_folder)), {**ARCHITECTURE, "layers": 3}, teacher)
    with pytest.raises(TrainingError, match=r": the network has layers = 2, but the recipe has layers = 3$"):
        other.warm_up()
    nowhere = Distillation(_options(start=str(tmp_path)), ARCHITECTURE, teacher)
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        nowhere.warm_up()
