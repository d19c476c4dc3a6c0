"""A run refuses damaged files and those of another run with one line, and does not change them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import torch
from octofold_training import checkpoints
from octofold_training.errors import TrainingError
from octofold_training.run.loop import SavedRun, resume, save_state
from support.trainers import Trainer


def _change_checkpoint(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    description = folder / "net" / "checkpoint.json"
    content = json.loads(description.read_text())
    change(content["training"])
    description.write_text(json.dumps(content))


def _begin_anew(_: Trainer, folder: Path) -> None:
    shutil.rmtree(folder / "run")


def _take_the_name(_: Trainer, folder: Path) -> None:
    _change_checkpoint(folder, lambda training: training.pop("run"))


@pytest.mark.parametrize("part", [_begin_anew, _take_the_name])
def test_a_checkpoint_of_another_run_is_not_replaced(
    student: Trainer, trained: Path, part: Callable[[Trainer, Path], None]
) -> None:
    part(student, trained)
    before = checkpoints.load(trained / "net").sha256
    with pytest.raises(
        TrainingError, match="net contains the network of another run; remove it, or name another"
    ):
        student.train(trained, positions=1280.0)
    assert checkpoints.load(trained / "net").sha256 == before


@pytest.mark.parametrize("content", ["no JSON", '{"format": 1, "training": []}'])
def test_an_unreadable_checkpoint_is_reported_and_not_replaced(
    student: Trainer, trained: Path, content: str
) -> None:
    (trained / "net" / "checkpoint.json").write_text(content)
    with pytest.raises(TrainingError, match=r"not a checkpoint description .* name another --checkpoint"):
        student.train(trained, positions=640.0)
    assert (trained / "net" / "checkpoint.json").read_text() == content


def test_a_state_with_one_changed_bit_counts_as_damaged(student: Trainer, trained: Path) -> None:
    file = trained / "run" / "state.pt"
    with ZipFile(file) as archive:
        tensor = archive.getinfo("archive/data/1")
    content = bytearray(file.read_bytes())
    content[tensor.header_offset + 200] ^= 1  # in this tensor or a later one
    file.write_bytes(content)
    with pytest.raises(TrainingError, match=r"state\.pt is damaged .*archive/data/\d+ does not match"):
        student.train(trained, positions=640.0)


def test_a_run_of_another_kind_needs_another_folder(student: Trainer, tmp_path: Path) -> None:
    history = tmp_path / "run" / "history.jsonl"
    history.parent.mkdir()
    history.write_text('{"positions": 5, "average": 3.0}\n')
    with pytest.raises(TrainingError, match=r"jsonl:1 has no loss: the report is from another kind of run"):
        student.train(tmp_path, positions=320.0)
    assert history.read_text() == '{"positions": 5, "average": 3.0}\n'


@pytest.mark.parametrize("name", ["stages", "games"])
def test_a_state_of_another_form_is_refused_in_one_line_and_not_changed(
    student: Trainer, trained: Path, name: str
) -> None:
    file = trained / "run" / "state.pt"
    state = checkpoints.load_tensors(file)
    del state[name]
    checkpoints.save_tensors(file, state)
    before = file.read_bytes()
    with pytest.raises(
        TrainingError, match=rf"state\.pt has no '{name}': it belongs to another version .* --state"
    ):
        student.train(trained, positions=640.0)
    assert file.read_bytes() == before


def _overwrite(state: Path) -> None:
    state.write_bytes(b"garbage")


def _replace_by_weights(state: Path) -> None:
    torch.save({"weights": torch.zeros(3)}, state)


@pytest.mark.parametrize("damage", [_overwrite, _replace_by_weights])
def test_a_damaged_state_is_named(student: Trainer, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    run = student.make()
    save_state(run, tmp_path, SavedRun((), ""))
    damage(tmp_path / "state.pt")
    with pytest.raises(TrainingError, match=r"state\.pt is damaged .*; remove it, or name another --state"):
        resume(run, tmp_path)


def test_a_state_of_another_run_is_refused(trainer: Trainer, tmp_path: Path) -> None:
    save_state(trainer.make(), tmp_path, SavedRun((), ""))
    with pytest.raises(TrainingError, match=rf"state\.pt: .*{trainer.other_run}"):
        resume(trainer.make(other=True), tmp_path)
    sizes = ", ".join(f"{name} = {size!r}" for name, size in trainer.other_size.items())
    with pytest.raises(TrainingError, match=rf"state\.pt: the run has .* but the recipe has {sizes}; change"):
        resume(trainer.make(**trainer.other_size), tmp_path)


def test_a_history_with_an_incomplete_line_does_not_stop_a_run(student: Trainer, trained: Path) -> None:
    history = trained / "run" / "history.jsonl"
    whole = history.read_text()
    history.write_text(whole + '{"seconds": 12')
    student.train(trained, positions=320.0)
    assert history.read_text() == whole


@pytest.mark.parametrize("line", ['{"positions": 1', '{"positions": "12"}'])
def test_a_damaged_history_is_named_with_its_line(student: Trainer, trained: Path, line: str) -> None:
    history = trained / "run" / "history.jsonl"
    history.write_text(f"{history.read_text()}{line}\n")
    count = len(history.read_text().splitlines())
    with pytest.raises(TrainingError, match=rf"history\.jsonl:{count}: not a report of a run"):
        student.train(trained, positions=320.0)
