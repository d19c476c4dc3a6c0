"""A run that is shorter than a recipe's averaging still learns, and names what was shortened."""

from pathlib import Path
from typing import Any

import pytest
import torch
from octofold_players.ntuple.network import NTupleNetwork
from octofold_training import cli
from octofold_training.learners.distil import Distillation
from octofold_training.learners.student_run import DistilOptions
from octofold_training.run.training_run import TrainingRun
from torch import Tensor, nn

SHORT = DistilOptions(positions=8_000.0, batch_size=64, slices=2, learning_rate=5e-3, warm_up=64.0)


def _weights(network: nn.Module) -> Tensor:
    return torch.cat([each.detach().flatten() for each in network.parameters()]).clone()


def _left_of_the_start(run: TrainingRun[Any], trained: nn.Module) -> float:
    """Learn to the end; return the distance of the averaged weights from the final ones, as a share of the
    way from the start."""
    start = _weights(trained)
    while run.positions < run.options.positions:
        run.learn()
    end, averaged = _weights(trained), _weights(run.averaged.module)
    return float((averaged - end).norm() / (start - end).norm())


def test_a_short_run_does_not_include_its_first_weights_in_the_average(
    teacher: NTupleNetwork, architecture: dict[str, Any]
) -> None:
    run = Distillation(SHORT, architecture, teacher)
    run.warm_up()
    assert _left_of_the_start(run, run.network) < 0.3


def test_the_command_reports_what_it_shortens(
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
