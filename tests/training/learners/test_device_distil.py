"""Distillation on one device: the student learns as from games on the CPU, and runs continue."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from octofold_players.ntuple.network import NTupleNetwork
from octofold_training import checkpoints, cli
from octofold_training.errors import TrainingError
from octofold_training.learners.device_distil import DeviceDistillation, DeviceDistilOptions

ARCHITECTURE = {"kind": "pairs", "patterns": ["lines"], "features": 8, "dense": [32], "exponents": 16}


def _options(**changes: Any) -> DeviceDistilOptions:
    small = DeviceDistilOptions(batch_size=64, slices=2, warm_up=64.0, warm_up_moves=50, learning_rate=5e-3)
    return replace(small, **changes)


@pytest.mark.long  # a whole training
def test_the_student_learns_to_agree_with_the_teacher(teacher: NTupleNetwork) -> None:
    """With five seeds, the agreement rose by 5.9 points with a standard deviation of 0.8; a
    student that does not learn gains nothing. Fewer than one in ten thousand fails by chance.
    """
    run = DeviceDistillation(_options(temperature=30.0, warm_up_moves=400), ARCHITECTURE, teacher)
    run.warm_up()
    first = run.learn(40)
    run.learn(290)
    last = run.learn(40)
    assert last.accuracy > first.accuracy + 0.025
    assert last.student_games > 0


def test_networks_and_options_that_cannot_be_trained_are_refused(teacher: NTupleNetwork) -> None:
    with pytest.raises(TrainingError, match='head = "policy"'):
        DeviceDistillation(_options(), ARCHITECTURE | {"head": "value", "value_scale": 100.0}, teacher)
    with pytest.raises(TrainingError, match="batch_size must be even, got 63"):
        DeviceDistillation(_options(batch_size=63), ARCHITECTURE, teacher)


def test_the_command_trains_on_one_device_by_a_recipe(
    teacher: NTupleNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, net = tmp_path / "tiny.toml", tmp_path / "net"
    recipe.write_text(
        '[network]\nkind = "pairs"\npatterns = ["lines"]\nfeatures = 8\ndense = [32]\nexponents = 16\n'
        "[device_distil]\nbatch_size = 64\nslices = 2\npositions = 6400\nwarm_up_moves = 20\nfloat16 = true\n"
    )
    teacher.save(tmp_path / "teacher")
    command = ["student", str(recipe), "--teacher", str(tmp_path / "teacher"), "--device", "cpu"]
    command += ["--state", str(tmp_path / "run"), "--checkpoint", str(net)]
    assert cli.main(command) == 0
    assert "finished: 6,400 of 6,400 positions" in capsys.readouterr().out
    assert "on one device" in checkpoints.load(net).training["method"]
    recipe.write_text(recipe.read_text() + "[distil]\n")
    assert cli.main(command) == 1
    assert "must have [distil] or [device_distil], got both" in capsys.readouterr().err
