"""A run that is shorter than a recipe's averaging still learns, and says what was cut."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from octofold_players.ntuple.network import NTupleNetwork
from octofold_training import cli
from octofold_training.learners.distil import Distillation, DistilOptions
from octofold_training.run.training_run import TrainingRun, cooling
from torch import Tensor, nn

SHORT = DistilOptions(positions=8_000.0, batch_size=64, slices=2, learning_rate=5e-3, warm_up=64.0)


def _weights(network: nn.Module) -> Tensor:
    return torch.cat([each.detach().flatten() for each in network.parameters()]).clone()


def _left_of_the_start(run: TrainingRun[Any], trained: nn.Module) -> float:
    """Learn to the end; how far the averaged weights are from the final ones, as a share of the way."""
    start = _weights(trained)
    while run.positions < run.options.positions:
        run.learn()
    end, averaged = _weights(trained), _weights(run.averaged.module)
    return float((averaged - end).norm() / (start - end).norm())


def test_a_short_run_does_not_average_over_its_first_weights(
    teacher: NTupleNetwork, architecture: dict[str, Any]
) -> None:
    run = Distillation(SHORT, architecture, teacher)
    run.warm_up()
    assert _left_of_the_start(run, run.network) < 0.3


def test_the_learning_rate_of_a_short_run_reaches_its_peak(
    teacher: NTupleNetwork, architecture: dict[str, Any]
) -> None:
    options = replace(SHORT, warm_up=200e3)
    run = Distillation(options, architecture, teacher)
    run.positions = 4_000
    assert run.learning_rate() == options.learning_rate


def test_a_long_run_keeps_what_its_recipe_says(teacher: NTupleNetwork, architecture: dict[str, Any]) -> None:
    run = Distillation(DistilOptions(positions=20e6, averaged=2e6, warm_up=200e3), architecture, teacher)
    assert run.options.averaged == 2e6
    assert run.warnings == []


def test_an_average_that_a_recipe_chooses_is_cut_as_the_default_is(
    teacher: NTupleNetwork, architecture: dict[str, Any]
) -> None:
    run = Distillation(DistilOptions(positions=2_000, averaged=4e6), architecture, teacher)
    assert "averaged is reduced from 4,000,000 to 200 positions, 10% of a run of 2,000" in run.warnings


def test_the_command_warns_of_what_it_cuts(
    teacher: NTupleNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teacher.save(tmp_path / "teacher")
    recipe = tmp_path / "short.toml"
    network = '[network]\nkind = "cnn"\nlayers = 2\nchannels = 16\nexponents = 16\n'
    recipe.write_text(f"{network}[distil]\npositions = 2_000\nbatch_size = 64\nslices = 2\n")
    folders = ["--teacher", "teacher", "--state", "run", "--checkpoint", "net"]
    folders = [name if name.startswith("--") else str(tmp_path / name) for name in folders]
    assert cli.main(["student", str(recipe), *folders]) == 0
    warning = "short.toml: averaged is reduced from 2,000,000 to 200 positions, 10% of a run of 2,000"
    assert any(
        line.startswith("warning: ") and line.endswith(warning)
        for line in capsys.readouterr().err.splitlines()
    )


@pytest.mark.parametrize(
    ("done", "cool_down", "factor"),
    [
        (0, 0.25, 1.0),
        (75, 0.25, 1.0),
        (90, 0.25, 0.4),
        (100, 0.25, 0.0),
        (130, 0.25, 0.0),
        (50, 1.0, 0.5),
        (100, 0.0, 1.0),
    ],
)
def test_a_rate_stays_and_then_falls_in_a_line_to_nothing(
    done: float, cool_down: float, factor: float
) -> None:
    assert cooling(done, 100, cool_down) == pytest.approx(factor)
