"""Imitation of a teacher that plays on the same device: a network learns its moves, and runs continue."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from octofold_papers import cli
from octofold_papers.supervised.device_imitation import DeviceImitation, DeviceImitationOptions
from octofold_players.ntuple.network import NTupleNetwork
from octofold_training import checkpoints
from octofold_training.errors import TrainingError
from octofold_training.games.tensor_teacher import TensorTeacher
from octofold_training.run.loop import SavedRun, resume, save_state

SMALL = {"kind": "mlp", "dense": [64], "exponents": 16}
OPTIONS = DeviceImitationOptions(
    positions=18_000, batch_size=100, learning_rate=3e-3, depth=1, games=64, round_moves=16, warm_up_moves=100
)


@pytest.fixture(scope="module")
def tables(teacher: NTupleNetwork) -> TensorTeacher:
    return TensorTeacher(teacher, torch.device("cpu"))


def test_the_network_learns_to_make_the_teachers_moves() -> None:
    """The teacher makes the move with the most points, and the first legal move if none has any."""
    greedy = TensorTeacher(NTupleNetwork(((0, 1),), np.zeros(256, np.float32)), torch.device("cpu"))
    run = DeviceImitation(OPTIONS, SMALL, greedy)
    run.warm_up()
    reports = []
    while not run.finished:
        reports.append(run.learn(60))
    assert run.positions == OPTIONS.positions
    assert reports[-1].accuracy > reports[0].accuracy + 0.02  # with three seeds, the increase was 0.05
    assert reports[-1].accuracy > 0.58


def test_each_position_of_a_round_is_learned_once_with_the_move_made(tables: TensorTeacher) -> None:
    run = DeviceImitation(replace(OPTIONS, batch_size=64, games=32), SMALL, tables)
    batches = [next(run._batches) for _ in range(16 * 32 // 64)]
    boards, moves = (torch.cat(each) for each in zip(*batches, strict=True))
    assert torch.equal(moves, tables.action_values(boards).argmax(dim=1))
    sums = (boards.int().exp2() * (boards > 0)).sum(dim=1)
    assert torch.histc(sums.float(), 3, 0, 42).min() > 0  # boards of early and of late moves
    assert len(boards.unique(dim=0)) > 450  # only a few first positions are equal


def test_a_run_continues_where_it_stopped_and_only_with_the_same_teacher(
    tables: TensorTeacher, teacher: NTupleNetwork, tmp_path: Path
) -> None:
    run = DeviceImitation(OPTIONS, SMALL, tables)
    run.learn(50)
    save_state(run, tmp_path, SavedRun((), ""))
    later = DeviceImitation(OPTIONS, SMALL, tables)
    resume(later, tmp_path)
    assert later.positions == 5_000
    assert torch.equal(later._games.boards, run._games.boards)
    assert all(map(torch.equal, later.network.parameters(), run.network.parameters()))
    other = TensorTeacher(replace(teacher, values=teacher.values + 1), torch.device("cpu"))
    with pytest.raises(TrainingError, match="the moves of another teacher"):
        resume(DeviceImitation(OPTIONS, SMALL, other), tmp_path)
    with pytest.raises(TrainingError, match="games"):
        resume(DeviceImitation(replace(OPTIONS, games=32), SMALL, tables), tmp_path)


def test_the_published_tables_can_be_rebuilt_from_a_teachers_moves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The teacher has one small table, because 16,384 games on a CPU take long."""
    small = NTupleNetwork(((0, 1),), torch.randn(256).numpy())
    small.save(tmp_path / "teacher")
    options = replace(OPTIONS, depth=2, games=8, round_moves=4, warm_up_moves=0, batch_size=30)
    monkeypatch.setattr(
        "octofold_papers.supervised.table.DeviceImitationOptions",
        lambda positions: replace(options, positions=positions),
    )
    command = ["table", "--rows", "MLP4", "--positions", "2", "--games", "1", "--device", "cpu"]
    command += ["--teacher", str(tmp_path / "teacher"), "--out", str(tmp_path / "table")]
    assert cli.main(command) == 0
    assert "| MLP4 | 823,388 | 8 | 2 |" in capsys.readouterr().out
    found = checkpoints.load(tmp_path / "table" / "MLP4" / "2")
    assert found.training["method"] == "supervised by a teacher's games, on one device"
    assert found.training["teacher_sha256"] == small.sha256
    assert found.training["teacher_depth"] == 2
    assert cli.main([*command[:-4], "--out", str(tmp_path / "table")]) == 1  # other results are there
