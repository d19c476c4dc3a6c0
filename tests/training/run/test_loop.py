"""Every long run resumes, stops in time, and always keeps its last good state."""

import hashlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from octofold_players.ntuple.network import NTupleNetwork
from octofold_training import checkpoints
from octofold_training.errors import TrainingError
from octofold_training.run.loop import resume, train
from support.trainers import Trainer

FullDisk = Callable[[int], AbstractContextManager[None]]


def test_a_run_continues_where_it_stopped(trainer: Trainer, tmp_path: Path) -> None:
    run = trainer.train(tmp_path, positions=320.0)
    resumed = trainer.make(positions=320.0)
    resume(resumed, tmp_path / "run")
    assert (resumed.positions, resumed.seconds) == (run.positions, run.seconds)
    _assert_same(resumed.state(), run.state())
    history = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert history[-1]["positions"] == run.positions
    saved = checkpoints.load(tmp_path / "net")
    assert saved.training["positions"] == run.positions
    _assert_same(saved.network.state_dict(), run.averaged.module.state_dict())
    assert resumed.learn().positions > run.positions


@pytest.mark.usefixtures("curves")
def test_a_run_draws_its_curves(student: Trainer, tmp_path: Path) -> None:
    student.train(tmp_path, positions=64.0)
    assert (tmp_path / "run" / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("place", ["file", "file/net"])
def test_a_checkpoint_that_cannot_be_written_is_refused_before_anything_is_learned(
    student: Trainer, tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("mine")
    run = student.make(positions=320.0)
    with pytest.raises(TrainingError, match=r"--checkpoint: .*file is not a folder"):
        train(run, tmp_path / "run", tmp_path / place, student.curves, lambda _: None)
    assert run.positions == 0


def test_the_first_of_two_new_runs_to_save_a_checkpoint_keeps_it(student: Trainer, tmp_path: Path) -> None:
    def report(_: Any) -> None:
        if not (tmp_path / "net").exists():
            run = student.make(positions=64.0)
            train(run, tmp_path / "first", tmp_path / "net", student.curves, lambda _: None)

    with pytest.raises(TrainingError, match="net contains the network of another run"):
        student.train(tmp_path, report, positions=320.0)
    assert checkpoints.load(tmp_path / "net").training["positions"] == 64
    assert not (tmp_path / "run" / "state.pt").exists()


def test_two_processes_do_not_train_in_one_folder(student: Trainer, tmp_path: Path) -> None:
    def report(_: Any) -> None:
        with pytest.raises(TrainingError, match="run: another process is working in this folder"):
            student.train(tmp_path, positions=64.0)

    run = student.train(tmp_path, report, positions=64.0)
    assert run.finished


def test_a_run_keeps_other_files_in_its_folders(student: Trainer, tmp_path: Path) -> None:
    others = (tmp_path / "run" / "mine.txt", tmp_path / "net" / "weights-final.pt")
    for file in others:
        file.parent.mkdir(parents=True)
        file.write_text("mine")
    student.train(tmp_path, positions=64.0)
    student.train(tmp_path, positions=128.0)
    assert all(file.read_text() == "mine" for file in others)
    assert len(list((tmp_path / "net").glob("weights-*.pt"))) == 2


def test_a_checkpoint_lists_every_stage_of_its_run_and_the_teachers_digest(
    student: Trainer, teacher: NTupleNetwork, tmp_path: Path
) -> None:
    fitting: dict[str, Any] = {"warm_up": 16.0, "averaged": 16.0}  # for runs of any length
    student.train(tmp_path, positions=320.0, minutes=0.0, **fitting)
    student.train(tmp_path, positions=320.0, **fitting)
    student.train(tmp_path, positions=640.0, **fitting)  # only longer
    run = student.train(tmp_path, positions=960.0, learning_rate=1e-3, **fitting)
    training = checkpoints.load(tmp_path / "net").training
    first, second = training["stages"]
    assert first["positions"] + second["positions"] == training["positions"] == run.positions
    assert (first["positions"], first["options"]["learning_rate"]) == (640, 2e-3)
    assert second["options"] == training["options"]
    digest = hashlib.sha256(teacher.values.tobytes()).hexdigest()
    assert {stage["teacher_sha256"] for stage in (first, second)} == {digest}


def test_a_removed_option_begins_no_new_stage(student: Trainer, tmp_path: Path) -> None:
    fitting: dict[str, Any] = {"warm_up": 16.0, "averaged": 16.0}  # for runs of any length
    student.train(tmp_path, positions=320.0, **fitting)
    state = checkpoints.load_tensors(tmp_path / "run" / "state.pt")
    for options in (state["options"], state["stages"][-1]["options"]):
        options["removed"] = 1.0
    checkpoints.save_tensors(tmp_path / "run" / "state.pt", state)
    run = student.train(tmp_path, positions=640.0, **fitting)
    (stage,) = checkpoints.load(tmp_path / "net").training["stages"]
    assert stage["positions"] == run.positions


def test_an_option_that_is_new_begins_a_stage_unless_it_has_its_default(
    student: Trainer, tmp_path: Path
) -> None:
    fitting: dict[str, Any] = {"warm_up": 16.0, "averaged": 16.0}
    student.train(tmp_path, positions=320.0, **fitting)
    state = checkpoints.load_tensors(tmp_path / "run" / "state.pt")
    for options in (state["options"], state["stages"][-1]["options"]):
        del options["reuse"]
    checkpoints.save_tensors(tmp_path / "run" / "state.pt", state)
    for reuse in (1, 4):
        student.train(tmp_path, positions=320.0 * (1 + reuse), reuse=reuse, **fitting)
        stages = checkpoints.load(tmp_path / "net").training["stages"]
        assert [stage["options"]["reuse"] for stage in stages] == ([1] if reuse == 1 else [1, 4])


def _assert_same(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for name in left:
            _assert_same(left[name], right[name])
    elif isinstance(left, list):
        for mine, theirs in zip(left, right, strict=True):
            _assert_same(mine, theirs)
    elif isinstance(left, torch.Tensor):
        assert torch.equal(left, right)
    elif isinstance(left, np.ndarray):
        np.testing.assert_array_equal(left, right)
    else:
        assert left == right


def test_neither_an_infinite_loss_nor_broken_weights_replace_the_last_good_state(
    trainer: Trainer, tmp_path: Path
) -> None:
    trainer.train(tmp_path, positions=256.0)
    before = (tmp_path / "run" / "state.pt").read_bytes()
    digest = checkpoints.load(tmp_path / "net").sha256
    with pytest.raises(TrainingError, match="loss became"):
        trainer.train(tmp_path, positions=1e9, learning_rate=1e30)

    run = trainer.make(positions=512.0)
    learn = run.learn

    def broken() -> Any:  # the last update breaks the average, so no later loss shows it
        progress = learn()
        with torch.no_grad():
            next(run.averaged.parameters()).fill_(torch.inf)
        return progress

    run.learn = broken  # type: ignore[method-assign]
    with pytest.raises(TrainingError, match="no longer finite numbers at"):
        train(run, tmp_path / "run", tmp_path / "net", trainer.curves, lambda _: None)
    assert (tmp_path / "run" / "state.pt").read_bytes() == before
    assert checkpoints.load(tmp_path / "net").sha256 == digest


def test_a_weight_too_large_for_float16_keeps_the_last_state_and_says_how_to_continue(
    student: Trainer, tmp_path: Path
) -> None:
    student.train(tmp_path, positions=64.0)
    before = (tmp_path / "run" / "state.pt").read_bytes()
    run = student.make(positions=128.0, float16=True)
    folders = (tmp_path / "run", tmp_path / "net")

    def outgrow(_: Any) -> None:
        next(iter(run.averaged.parameters())).data.view(-1)[0] = 70_000

    with pytest.raises(TrainingError, match=r" at most 65,504 .* set `float16 = false` in the recipe$"):
        train(run, *folders, student.curves, outgrow)
    assert (tmp_path / "run" / "state.pt").read_bytes() == before
    checkpoints.load(tmp_path / "net")


def test_a_full_disk_stops_and_keeps_the_last_good_state(
    student: Trainer, tmp_path: Path, full_disk: FullDisk
) -> None:
    before = student.train(tmp_path, positions=320.0)
    digest = checkpoints.load(tmp_path / "net").sha256
    size = (tmp_path / "run" / "state.pt").stat().st_size
    with full_disk(size // 2), pytest.raises(OSError, match="File too large"):
        student.train(tmp_path, positions=640.0)
    assert not list(tmp_path.glob("*/*.partial"))
    assert checkpoints.load(tmp_path / "net").sha256 == digest
    resumed = student.make()
    resume(resumed, tmp_path / "run")
    assert resumed.positions == before.positions


def test_a_run_stops_at_its_time_limit_and_continues_later(student: Trainer, tmp_path: Path) -> None:
    stopped = student.train(tmp_path, positions=1e9, minutes=1e-4)
    went_on = student.train(tmp_path, positions=1e9, minutes=1e-4)
    assert 0 < stopped.positions < went_on.positions < 1e9


def test_ctrl_c_is_acknowledged_and_saves_the_state_and_the_checkpoint(
    student: Trainer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        student.train(tmp_path, interrupt)
    assert capsys.readouterr().err == f"stopping; saving the run in {tmp_path / 'run'}\n"
    assert (tmp_path / "run" / "state.pt").exists()
    assert (tmp_path / "net" / "checkpoint.json").exists()
