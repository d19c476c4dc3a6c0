"""Checkpoints are read back as written; damaged and hostile ones are refused."""

import json
from pathlib import Path

import pytest
import torch
from octofold_training import checkpoints
from octofold_training.checkpoints import CheckpointError
from octofold_training.networks.build import build

ARCHITECTURE = {"kind": "cnn", "layers": 2, "channels": 8, "exponents": 16}


def _describe_again(folder: Path, **changes: object) -> None:
    description = json.loads((folder / "checkpoint.json").read_text())
    description |= changes
    (folder / "checkpoint.json").write_text(json.dumps(description))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    checkpoints.save(tmp_path / "net", build(ARCHITECTURE), ARCHITECTURE, {"positions": 3})
    return tmp_path / "net"


def test_a_checkpoint_is_loaded_as_it_was_saved(folder: Path) -> None:
    torch.manual_seed(0)
    saved = build(ARCHITECTURE).state_dict()
    loaded = checkpoints.load(folder)
    assert loaded.architecture == ARCHITECTURE
    assert loaded.training == {"positions": 3}
    for name, value in loaded.network.state_dict().items():
        assert torch.equal(value, saved[name])
    assert [file.name for file in folder.iterdir() if file.name.endswith(".partial")] == []


def test_weights_in_float16_take_half_the_space_and_are_loaded_rounded(folder: Path, tmp_path: Path) -> None:
    network = checkpoints.load(folder).network
    checkpoints.save(tmp_path / "half", network, ARCHITECTURE, {}, float16=True)
    loaded = checkpoints.load(tmp_path / "half").network.state_dict()
    for name, weight in network.state_dict().items():
        assert torch.equal(loaded[name], weight.half().float())
    stored = checkpoints.load_tensors(_weights(tmp_path / "half")).values()
    assert {weight.element_size() for weight in stored} == {2}


def test_a_weight_too_large_for_float16_is_named_and_the_old_checkpoint_stays(folder: Path) -> None:
    before = checkpoints.load(folder)
    name, weight = next(iter(before.network.named_parameters()))
    weight.data.view(-1)[0] = 70_000
    with pytest.raises(CheckpointError, match=f"{name} must be at most 65,504 for float16, got 70,000"):
        checkpoints.save(folder, before.network, ARCHITECTURE, {}, float16=True)
    assert checkpoints.load(folder).sha256 == before.sha256


def _weights(folder: Path) -> Path:
    (weights,) = folder.glob("weights-*.pt")
    return weights


def test_a_save_that_is_cut_off_leaves_the_old_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = checkpoints.load(folder)
    replace = Path.replace

    def fail_at_last(path: Path, target: Path) -> Path:
        if target.name == "checkpoint.json":
            raise OSError(28, "No space left on device")
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail_at_last)
        with pytest.raises(OSError, match="No space left"):
            checkpoints.save(folder, build(ARCHITECTURE), ARCHITECTURE, {"positions": 4})
    assert checkpoints.load(folder).sha256 == before.sha256


def test_truncated_weights_are_named(folder: Path) -> None:
    weights = _weights(folder)
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=f"{weights.name} is damaged"):
        checkpoints.load(folder)


def test_weights_of_another_architecture_are_refused(folder: Path) -> None:
    _describe_again(folder, architecture=ARCHITECTURE | {"channels": 9})
    with pytest.raises(CheckpointError, match=r"do not fit the architecture \([^\n\t]*\)$"):
        checkpoints.load(folder)


class _Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("this checkpoint ran code",)


def test_weights_that_would_run_code_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = _weights(folder)
    torch.save(_Hostile(), weights)
    _describe_again(folder, sha256=checkpoints.sha256(weights))
    with pytest.raises(CheckpointError, match=weights.name):
        checkpoints.load(folder)
    assert "ran code" not in capsys.readouterr().out


def test_weights_that_are_not_numbers_are_refused(folder: Path) -> None:
    network = checkpoints.load(folder).network
    next(network.parameters()).data.view(-1)[0] = torch.nan
    checkpoints.save(folder, network, ARCHITECTURE, {})
    with pytest.raises(CheckpointError, match="contains weights that are not finite numbers"):
        checkpoints.load(folder)


@pytest.mark.parametrize("text", ["[]", '{"format": 1}'])
def test_a_damaged_checkpoint_description_is_named(folder: Path, text: str) -> None:
    (folder / "checkpoint.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"checkpoint\.json"):
        checkpoints.load(folder)


def test_the_error_for_a_missing_checkpoint_suggests_the_probable_one(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=f"^there is no {folder}s; did you mean {folder}\\?$"):
        checkpoints.load(folder.with_name(f"{folder.name}s"))
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        checkpoints.load(tmp_path)
