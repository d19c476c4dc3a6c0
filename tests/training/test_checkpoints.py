"""Checkpoints: what is written is read back, and nothing damaged or hostile is."""

import json
from pathlib import Path

import pytest
import torch
from octofold_training import checkpoints
from octofold_training.checkpoints import CheckpointError
from octofold_training.networks import build

ARCHITECTURE = {"kind": "cnn", "layers": 2, "channels": 8, "exponents": 16}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    checkpoints.save(tmp_path / "net", build(ARCHITECTURE), ARCHITECTURE, {"positions": 3})
    return tmp_path / "net"


def test_a_checkpoint_comes_back_as_it_was_saved(folder: Path) -> None:
    torch.manual_seed(0)
    saved = build(ARCHITECTURE).state_dict()
    loaded = checkpoints.load(folder)
    assert loaded.architecture == ARCHITECTURE
    assert loaded.training == {"positions": 3}
    for name, value in loaded.network.state_dict().items():
        assert torch.equal(value, saved[name])
    assert [file.name for file in folder.iterdir() if file.name.endswith(".partial")] == []


def test_truncated_weights_are_named(folder: Path) -> None:
    weights = folder / "weights.pt"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"weights\.pt: damaged"):
        checkpoints.load(folder)


def _describe_again(folder: Path, **changes: object) -> None:
    description = json.loads((folder / "checkpoint.json").read_text())
    description |= changes
    (folder / "checkpoint.json").write_text(json.dumps(description))


def test_weights_of_another_architecture_are_refused(folder: Path) -> None:
    _describe_again(folder, architecture=ARCHITECTURE | {"channels": 9})
    with pytest.raises(CheckpointError, match="do not fit the architecture"):
        checkpoints.load(folder)


class _Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("this checkpoint ran code",)


def test_weights_that_would_run_code_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(_Hostile(), folder / "weights.pt")
    _describe_again(folder, sha256=checkpoints._sha256(folder / "weights.pt"))
    with pytest.raises(CheckpointError, match=r"weights\.pt"):
        checkpoints.load(folder)
    assert "ran code" not in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', "\x00"])
def test_a_description_that_is_none_is_named(folder: Path, text: str) -> None:
    (folder / "checkpoint.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"checkpoint\.json"):
        checkpoints.load(folder)


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint here"):
        checkpoints.load(tmp_path / "nothing")
