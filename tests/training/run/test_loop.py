"""What every long run keeps to: it resumes, stops in time, and keeps its last good state whatever happens."""

import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from octofold_players.ntuple.network import NTupleNetwork
from octofold_training import checkpoints
from octofold_training.checkpoints import Checkpoint
from octofold_training.errors import TrainingError
from octofold_training.learners import distil, dqn, imitation, lazyzero, ppo, value_td
from octofold_training.learners.device_distil import DeviceDistillation, DeviceDistilOptions
from octofold_training.learners.distil import Distillation, DistilOptions
from octofold_training.learners.ppo import PPO, PPOOptions
from octofold_training.learners.student_run import StudentProgress
from octofold_training.learners.value_td import ValueLearning, ValueOptions
from octofold_training.run.curves import Curves, draw_curves
from octofold_training.run.loop import resume, save_state, train
from octofold_training.run.training_run import RunProgress, TrainingRun

SUPERVISED = {"batch_size": 16, "slices": 2, "warm_up": 64.0}
ON_DEVICE = {**SUPERVISED, "warm_up_moves": 2}
REINFORCED = {
    "games": 32,
    "horizon": 8,
    "minibatch_size": 64,
    "warm_up_moves": 2,
    "value_units": 8,
    "value_head_start": 0.0,
}
VALUE = {"head": "value", "value_scale": 1000.0}


FullDisk = Callable[[int], AbstractContextManager[None]]


class Trainer:
    """Makes runs of one kind, and knows what makes another run of it."""

    def __init__(
        self, make: Callable[..., TrainingRun[Any]], curves: Any, other_size: dict[str, int], other_run: str
    ) -> None:
        self.make, self.curves, self.other_size, self.other_run = make, curves, other_size, other_run

    def train(
        self, folder: Path, report: Callable[[Any], None] = lambda _: None, **changes: Any
    ) -> TrainingRun[Any]:
        """Of a new or resumed run in `folder`."""
        minutes = changes.pop("minutes", float("inf"))
        run = self.make(**changes)
        train(run, folder / "run", folder / "net", self.curves, report, minutes)
        return run


@pytest.fixture(scope="module")
def trainers(teacher: NTupleNetwork, start: Checkpoint, architecture: dict[str, Any]) -> dict[str, Trainer]:
    def student(other: bool = False, **changes: Any) -> TrainingRun[Any]:
        sizes = architecture | {"channels": 17 if other else 16}
        return Distillation(DistilOptions(**(SUPERVISED | changes)), sizes, teacher)

    def student_with_muon(**changes: Any) -> TrainingRun[Any]:
        return student(muon=True, micro_batch_size=6, **changes)

    def value(other: bool = False, **changes: Any) -> TrainingRun[Any]:
        sizes = architecture | VALUE | {"channels": 17 if other else 16}
        return ValueLearning(ValueOptions(**(SUPERVISED | changes)), sizes, teacher)

    def reinforced(other: bool = False, **changes: Any) -> TrainingRun[Any]:
        begin = Checkpoint(start.network, architecture, {}, "f" * 64) if other else start
        return PPO(PPOOptions(**(REINFORCED | changes)), begin, torch.device("cpu"))

    def on_device(other: bool = False, **changes: Any) -> TrainingRun[Any]:
        sizes = architecture | {"channels": 17 if other else 16}
        return DeviceDistillation(DeviceDistilOptions(**(ON_DEVICE | changes)), sizes, teacher)

    return {
        "device": Trainer(on_device, distil.CURVES, {"slices": 3}, "but the recipe has"),
        "student": Trainer(student, distil.CURVES, {"slices": 3}, "but the recipe has"),
        "muon": Trainer(student_with_muon, distil.CURVES, {"slices": 3}, "but the recipe has"),
        "value": Trainer(value, value_td.CURVES, {"slices": 3}, "but the recipe has"),
        "ppo": Trainer(reinforced, ppo.CURVES, {"games": 48, "value_units": 9}, "has the initial weights"),
    }


@pytest.fixture(params=["device", "student", "muon", "value", "ppo"])
def trainer(request: pytest.FixtureRequest, trainers: dict[str, Trainer]) -> Trainer:
    """Each of them, where what is claimed depends on it."""
    return trainers[request.param]


@pytest.fixture
def student(trainers: dict[str, Trainer]) -> Trainer:
    """One of them, where it does not."""
    return trainers["student"]


@pytest.fixture(scope="module")
def trained_once(trainers: dict[str, Trainer], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    trainers["student"].train(folder, positions=320.0)
    return folder


@pytest.fixture
def trained(trained_once: Path, tmp_path: Path) -> Path:
    """The folder of a student that has learned from 320 positions; the test may do what it likes with it."""
    return Path(shutil.copytree(trained_once, tmp_path / "trained"))


def test_a_run_goes_on_where_it_stopped(trainer: Trainer, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("shown", "kind"),
    [
        (distil.CURVES, StudentProgress),
        (value_td.CURVES, value_td.ValueProgress),
        (ppo.CURVES, ppo.PPOProgress),
        (imitation.CURVES, imitation.ImitationProgress),
        (dqn.CURVES, dqn.DQNProgress),
        (lazyzero.CURVES, lazyzero.LazyZeroProgress),
    ],
)
def test_the_reports_of_every_kind_have_what_its_curves_show(
    tmp_path: Path, shown: Curves, kind: type[RunProgress]
) -> None:
    """In the first report, all that may be None is None, as before a game has ended."""
    first = {field.name: None if "None" in str(field.type) else 1 for field in fields(kind)}
    second = dict.fromkeys(first, 2)
    reports = [asdict(kind(**report)) for report in (first, second)]
    draw_curves(reports, tmp_path / "curves.png", shown)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_that_goes_on_leaves_the_checkpoint_of_another_run_alone(
    student: Trainer, tmp_path: Path
) -> None:
    student.train(tmp_path / "mine", positions=320.0)
    student.train(tmp_path / "other", positions=320.0)
    before = checkpoints.load(tmp_path / "other" / "net").sha256
    run = student.make(positions=640.0)
    folders = (tmp_path / "mine" / "run", tmp_path / "other" / "net")
    with pytest.raises(TrainingError, match="net holds the network of another run"):
        train(run, *folders, student.curves, lambda _: None)
    assert checkpoints.load(tmp_path / "other" / "net").sha256 == before
    student.train(tmp_path / "mine", positions=640.0)  # its own is replaced


def _change_checkpoint(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    description = folder / "net" / "checkpoint.json"
    content = json.loads(description.read_text())
    change(content["training"])
    description.write_text(json.dumps(content))


def _begin_anew(_: Trainer, folder: Path) -> None:
    shutil.rmtree(folder / "run")


def _take_the_name(_: Trainer, folder: Path) -> None:
    _change_checkpoint(folder, lambda training: training.pop("run"))


def _forget_the_training(_: Trainer, folder: Path) -> None:
    _change_checkpoint(folder, lambda training: training.clear())


@pytest.mark.parametrize("part", [_begin_anew, _take_the_name, _forget_the_training])
def test_a_checkpoint_that_is_not_the_runs_own_stays(
    student: Trainer, trained: Path, part: Callable[[Trainer, Path], None]
) -> None:
    part(student, trained)
    before = checkpoints.load(trained / "net").sha256
    with pytest.raises(
        TrainingError, match="net holds the network of another run; remove it, or name another"
    ):
        student.train(trained, positions=1280.0)
    assert checkpoints.load(trained / "net").sha256 == before


@pytest.mark.parametrize("content", ["no JSON", "null", '{"format": 1, "training": []}', "[" * 100_000])
def test_a_checkpoint_that_cannot_be_read_is_not_replaced_and_said_to_be_so(
    student: Trainer, trained: Path, content: str
) -> None:
    (trained / "net" / "checkpoint.json").write_text(content)
    with pytest.raises(TrainingError, match=r"not a checkpoint description .* name another --checkpoint"):
        student.train(trained, positions=640.0)
    assert (trained / "net" / "checkpoint.json").read_text() == content


@pytest.mark.parametrize(
    ("name", "value"),
    [("positions", -5), ("positions", "x"), ("seconds", None), ("seconds", float("nan")), ("stages", [{}])],
)
def test_a_state_with_impossible_counts_is_damaged(
    student: Trainer, trained: Path, name: str, value: object
) -> None:
    state = checkpoints.load_tensors(trained / "run" / "state.pt")
    checkpoints.save_tensors(trained / "run" / "state.pt", state | {name: value})
    with pytest.raises(TrainingError, match=rf"state\.pt is damaged .*{name}"):
        student.train(trained, positions=640.0)


def test_a_state_of_which_one_bit_has_changed_is_damaged(student: Trainer, trained: Path) -> None:
    file = trained / "run" / "state.pt"
    with ZipFile(file) as archive:
        tensor = archive.getinfo("archive/data/1")
    content = bytearray(file.read_bytes())
    content[tensor.header_offset + 200] ^= 1  # in it, or in one that follows
    file.write_bytes(content)
    with pytest.raises(TrainingError, match=r"state\.pt is damaged .*archive/data/\d+ is not"):
        student.train(trained, positions=640.0)


@pytest.mark.parametrize("place", ["file", "file/net"])
def test_a_checkpoint_that_cannot_be_written_is_refused_before_anything_is_learned(
    student: Trainer, tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("mine")
    run = student.make(positions=320.0)
    with pytest.raises(TrainingError, match=r"--checkpoint: .*file is not a folder"):
        train(run, tmp_path / "run", tmp_path / place, student.curves, lambda _: None)
    assert run.positions == 0


def test_of_two_new_runs_with_one_checkpoint_the_first_to_save_keeps_it(
    student: Trainer, tmp_path: Path
) -> None:
    def report(_: Any) -> None:
        if not (tmp_path / "net").exists():
            run = student.make(positions=64.0)
            train(run, tmp_path / "first", tmp_path / "net", student.curves, lambda _: None)

    with pytest.raises(TrainingError, match="net holds the network of another run"):
        student.train(tmp_path, report, positions=320.0)
    assert checkpoints.load(tmp_path / "net").training["positions"] == 64
    assert not (tmp_path / "run" / "state.pt").exists()


def test_two_processes_do_not_train_in_one_folder(student: Trainer, tmp_path: Path) -> None:
    def report(_: Any) -> None:
        with pytest.raises(TrainingError, match="run: another process is training in this folder"):
            student.train(tmp_path, positions=64.0)

    run = student.train(tmp_path, report, positions=64.0)
    assert run.finished


def test_a_run_leaves_files_of_others_in_its_folders(student: Trainer, tmp_path: Path) -> None:
    others = (tmp_path / "run" / "tensorboard" / "mine.txt", tmp_path / "net" / "weights-final.pt")
    for file in others:
        file.parent.mkdir(parents=True)
        file.write_text("mine")
    student.train(tmp_path, positions=64.0)
    student.train(tmp_path, positions=128.0)
    assert all(file.read_text() == "mine" for file in others)
    assert len(list((tmp_path / "net").glob("weights-*.pt"))) == 2
    assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == 2


def test_a_state_that_does_not_fit_into_memory_is_not_called_damaged(
    student: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student.train(tmp_path, positions=64.0)

    def full(_: Path) -> Any:
        raise torch.OutOfMemoryError("no more is free")

    monkeypatch.setattr(checkpoints, "load_tensors", full)
    with pytest.raises(torch.OutOfMemoryError):
        resume(student.make(positions=64.0), tmp_path / "run")


def test_a_pool_goes_on_in_batches_of_another_size(trainers: dict[str, Trainer], tmp_path: Path) -> None:
    for name in ("student", "value"):
        folder = tmp_path / name
        trainers[name].train(folder, positions=320.0, slices=6, batch_size=8)
        run = trainers[name].train(folder, positions=640.0, slices=2, batch_size=24)
        assert run.finished


def test_a_run_of_another_kind_needs_another_folder(student: Trainer, tmp_path: Path) -> None:
    history = tmp_path / "run" / "history.jsonl"
    history.parent.mkdir()
    history.write_text('{"positions": 5, "average": 3.0}\n')
    with pytest.raises(
        TrainingError, match=r"history\.jsonl:1: has no loss; a run of another kind needs another"
    ):
        student.train(tmp_path, positions=320.0)
    assert history.read_text() == '{"positions": 5, "average": 3.0}\n'


def test_a_checkpoint_tells_every_stage_of_its_run_and_the_teachers_digest(
    student: Trainer, teacher: NTupleNetwork, tmp_path: Path
) -> None:
    fitting: dict[str, Any] = {"warm_up": 16.0, "averaged": 16.0}  # whatever the length of the run
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


@pytest.mark.parametrize("name", ["options", "stages", "identity", "network", "games"])
def test_a_state_of_another_form_is_refused_in_one_line_and_stays(
    student: Trainer, trained: Path, name: str
) -> None:
    file = trained / "run" / "state.pt"
    state = checkpoints.load_tensors(file)
    del state[name]
    checkpoints.save_tensors(file, state)
    before = file.read_bytes()
    with pytest.raises(TrainingError, match=rf"state\.pt has no '{name}': another version .* --state"):
        student.train(trained, positions=640.0)
    assert file.read_bytes() == before


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


def _empty(state: Path) -> None:
    state.write_bytes(b"")


def _overwrite(state: Path) -> None:
    state.write_bytes(b"garbage")


def _truncate(state: Path) -> None:
    state.write_bytes(state.read_bytes()[:5000])


def _replace_by_weights(state: Path) -> None:
    torch.save({"weights": torch.zeros(3)}, state)


@pytest.mark.parametrize("damage", [_empty, _overwrite, _truncate, _replace_by_weights])
def test_a_damaged_state_is_named(student: Trainer, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    run = student.make()
    save_state(run, tmp_path)
    damage(tmp_path / "state.pt")
    with pytest.raises(TrainingError, match=r"state\.pt is damaged .*; remove it, or name another --state"):
        resume(run, tmp_path)


def test_another_runs_state_is_refused(trainer: Trainer, tmp_path: Path) -> None:
    save_state(trainer.make(), tmp_path)
    with pytest.raises(TrainingError, match=rf"state\.pt: .*{trainer.other_run}"):
        resume(trainer.make(other=True), tmp_path)
    sizes = ", ".join(f"{name} = {size}" for name, size in trainer.other_size.items())
    with pytest.raises(TrainingError, match=rf"state\.pt: the run has .* but the recipe has {sizes}; change"):
        resume(trainer.make(**trainer.other_size), tmp_path)


def test_neither_a_loss_that_is_no_number_nor_broken_weights_replace_the_last_good_state(
    trainer: Trainer, tmp_path: Path
) -> None:
    trainer.train(tmp_path, positions=256.0)
    before = (tmp_path / "run" / "state.pt").read_bytes()
    digest = checkpoints.load(tmp_path / "net").sha256
    with pytest.raises(TrainingError, match="loss became"):
        trainer.train(tmp_path, positions=1e9, learning_rate=1e30)

    run = trainer.make(positions=512.0)
    learn = run.learn

    def broken() -> Any:  # by the last update, so that no later loss shows it
        progress = learn()
        with torch.no_grad():
            next(run.averaged.parameters()).fill_(torch.inf)
        return progress

    run.learn = broken  # type: ignore[method-assign]
    with pytest.raises(TrainingError, match="no longer finite numbers at"):
        train(run, tmp_path / "run", tmp_path / "net", trainer.curves, lambda _: None)
    assert (tmp_path / "run" / "state.pt").read_bytes() == before
    assert checkpoints.load(tmp_path / "net").sha256 == digest


def test_a_weight_too_large_for_float16_keeps_the_last_state_and_says_how_to_go_on(
    student: Trainer, tmp_path: Path
) -> None:
    student.train(tmp_path, positions=64.0)
    before = (tmp_path / "run" / "state.pt").read_bytes()
    run = student.make(positions=128.0, float16=True)
    folders = (tmp_path / "run", tmp_path / "net")

    def outgrow(_: Any) -> None:
        next(iter(run.averaged.parameters())).data.view(-1)[0] = 70_000

    with pytest.raises(TrainingError, match=r"net: .* reaches 70,000, .* continue with `float16 = false`$"):
        train(run, *folders, student.curves, outgrow)
    assert (tmp_path / "run" / "state.pt").read_bytes() == before
    checkpoints.load(tmp_path / "net")


def test_an_option_that_is_newer_than_a_run_makes_no_new_stage(student: Trainer, tmp_path: Path) -> None:
    fitting: dict[str, Any] = {"warm_up": 1.0, "averaged": 1.0}  # whatever the length of the run
    student.train(tmp_path, positions=64.0, **fitting)
    file = tmp_path / "run" / "state.pt"
    state = checkpoints.load_tensors(file)
    del state["stages"][0]["options"]["float16"]
    checkpoints.save_tensors(file, state)
    student.train(tmp_path, positions=128.0, **fitting)
    (stage,) = checkpoints.load(tmp_path / "net").training["stages"]
    assert stage["positions"] == 128


def test_a_run_does_not_go_on_with_another_seed(student: Trainer, trained: Path) -> None:
    refused = "the run has seed = 1, but the recipe has seed = 2; change it back, or name another --state"
    with pytest.raises(TrainingError, match=refused):
        student.train(trained, positions=320.0, seed=2)


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


def test_a_run_stops_after_its_time_and_goes_on_later(student: Trainer, tmp_path: Path) -> None:
    stopped = student.train(tmp_path, positions=1e9, minutes=1e-4)
    went_on = student.train(tmp_path, positions=1e9, minutes=1e-4)
    assert 0 < stopped.positions < went_on.positions < 1e9


def test_ctrl_c_says_so_and_saves_the_state_and_the_checkpoint(
    student: Trainer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        student.train(tmp_path, interrupt)
    assert capsys.readouterr().err == f"octofold-train: stopping; saving the run in {tmp_path / 'run'}\n"
    assert (tmp_path / "run" / "state.pt").exists()
    assert (tmp_path / "net" / "checkpoint.json").exists()


def test_a_history_cut_off_in_a_line_does_not_stop_a_run(student: Trainer, trained: Path) -> None:
    history = trained / "run" / "history.jsonl"
    whole = history.read_text()
    history.write_text(whole + '{"seconds": 12')
    student.train(trained, positions=320.0)
    assert history.read_text() == whole


@pytest.mark.parametrize(
    "line", ['{"positions": 1', '{"loss": 1.0}', "[3]", '{"positions": "12"}', '{"positions": Infinity}']
)
def test_a_damaged_history_is_named_with_its_line(student: Trainer, trained: Path, line: str) -> None:
    history = trained / "run" / "history.jsonl"
    history.write_text(f"{history.read_text()}{line}\n")
    count = len(history.read_text().splitlines())
    with pytest.raises(TrainingError, match=rf"history\.jsonl:{count}: not a report of a run"):
        student.train(trained, positions=320.0)
