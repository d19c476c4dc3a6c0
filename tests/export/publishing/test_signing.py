"""`octofold-export --sign`: signed before it is published, signed later, and signed again after changes."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from octofold_export.cli import main
from octofold_export.publishing.signing import PASSWORD_VARIABLE
from octofold_game.contract.model import SIGNATURE_FILE, read_card
from octofold_game.contract.signatures import PublicKeys, SignatureError
from support.one_kind import of_one_kind
from support.signing import KeyPair, new_keys

PASSWORD = "correct horse"

pytestmark = of_one_kind


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    """A pair whose private key is encrypted."""
    return new_keys(tmp_path_factory.mktemp("keys"), "release", password=PASSWORD.encode())


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)


@pytest.fixture(scope="module")
def published(
    checkpoint: Path, boards_file: Path, tmp_path_factory: pytest.TempPathFactory, keys: KeyPair
) -> Path:
    """A repository in which `small` was signed when it was published."""
    folder = tmp_path_factory.mktemp("repository") / "models"
    secret = folder.with_name("password")
    secret.write_text(f"{PASSWORD}\n")
    arguments = ["--checkpoint", str(checkpoint), "--name", "small", "--models", str(folder)]
    arguments += ["--sign", str(keys.private), "--sign-password-file", str(secret), "--precisions", "fp32"]
    assert main([*arguments, "--boards", str(boards_file), "--symmetries", "2"]) == 0
    return folder


@pytest.fixture
def models(published: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "models"))


def run(models: Path, *arguments: str | Path) -> int:
    return main(["--name", "small", "--version", "1", "--models", str(models), *map(str, arguments)])


def is_signed(folder: Path, keys: KeyPair) -> bool:
    try:
        keys.check(folder)
    except SignatureError:
        return False
    return True


def test_a_version_is_published_with_its_signature(models: Path, keys: KeyPair) -> None:
    folder = models / "small" / "1"
    assert sorted(file.name for file in folder.iterdir()) == [
        "README.md",
        "card.json",
        SIGNATURE_FILE,
        "model.onnx",
    ]
    assert is_signed(folder, keys)
    assert sorted(file.name for file in folder.parent.iterdir()) == ["1", "config.pbtxt"]


def test_a_published_version_is_signed_or_signed_again(models: Path, tmp_path: Path, keys: KeyPair) -> None:
    folder, other = models / "small" / "1", new_keys(tmp_path, "other")
    (folder / "tuning.json").write_text("{}")
    assert run(models, "--sign", keys.private) == 0
    assert is_signed(folder, keys)
    assert read_card(folder).tuning_sha256 == hashlib.sha256(b"{}").hexdigest()
    (folder / SIGNATURE_FILE).unlink()
    assert run(models, "--sign", tmp_path / "other.pem") == 1  # the password is not for this key
    assert not (folder / SIGNATURE_FILE).exists()
    other.private.write_bytes(keys.private.read_bytes())
    assert run(models, "--sign", other.private) == 0
    assert is_signed(folder, keys)


def test_a_damaged_version_is_not_signed(
    models: Path, keys: KeyPair, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = models / "small" / "1"
    before = (folder / SIGNATURE_FILE).read_bytes()
    (folder / "model.onnx").write_bytes(b"another")
    assert run(models, "--sign", keys.private) == 1
    assert capsys.readouterr().err.endswith("model.onnx: not the file that the card describes\n")
    assert (folder / SIGNATURE_FILE).read_bytes() == before
    assert run(models / "none", "--sign", keys.private) == 1
    assert "small/1: No such file" in capsys.readouterr().err


def test_a_card_that_changes_is_signed_again_or_does_not_change(
    models: Path, keys: KeyPair, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = models / "small" / "1"
    card = json.loads((folder / "card.json").read_text())
    result = _result(folder)
    assert run(models, "--record-strength", result) == 1
    assert "is signed: use --sign to sign it again, or remove its card.json.sig" in capsys.readouterr().err
    assert json.loads((folder / "card.json").read_text()) == card
    assert run(models, "--record-strength", result, "--sign", keys.private) == 0
    assert json.loads((folder / "card.json").read_text()) != card
    assert is_signed(folder, keys)


def _result(folder: Path) -> Path:
    """The result of games by the version in `folder`, in a file outside the repository."""
    card = json.loads((folder / "card.json").read_text())
    result = folder.parents[2] / "result.json"
    statistics: dict[str, Any] = {
        "average": 1.0,
        "average_interval": None,
        "median": 1,
        "median_interval": None,
        "best": 1,
        "reached": [],
        "outgrown": 0,
    }
    played: dict[str, Any] = {"model": "small", "version": "1", "precision": "fp32", "games": 1, "seed": 1}
    played |= {"schema": 2, "slice": None, "missing_games": 0}
    played |= {"sha256": card["precisions"]["fp32"]["sha256"], "statistics": statistics}
    result.write_text(json.dumps(played))
    return result


def test_a_change_that_cannot_be_signed_leaves_the_version_as_it_was(models: Path, keys: KeyPair) -> None:
    folder = models / "small" / "1"
    card = json.loads((folder / "card.json").read_text())
    card["precisions"]["int8"] = {"file": "model.int8.onnx", "sha256": "0" * 64}
    (folder / "card.json").write_text(json.dumps(card))
    (folder / "model.int8.onnx").write_bytes(b"another")
    result = _result(folder)
    before = {file: file.read_bytes() for file in folder.iterdir()}
    assert run(models, "--record-strength", result, "--sign", keys.private) == 1
    assert {file: file.read_bytes() for file in folder.iterdir()} == before


def test_an_extended_version_is_signed_again_or_refused_before_any_work(
    models: Path, keys: KeyPair, checkpoint: Path, boards_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = models / "small" / "1"
    extension: list[str | Path] = [
        "--extend",
        "--precisions",
        "fp32,fp16",
        "--checkpoint",
        checkpoint,
        "--boards",
        boards_file,
    ]
    assert run(models, *extension) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "is signed: use --sign" in line
    assert is_signed(folder, keys)
    assert run(models, *extension, "--sign", keys.private) == 0
    assert "fp16" in read_card(folder).precisions
    assert is_signed(folder, keys)


def test_a_key_that_cannot_be_used_is_found_before_any_work(
    models: Path,
    tmp_path: Path,
    keys: KeyPair,
    checkpoint: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = ("--checkpoint", checkpoint)
    other = ["--name", "other", "--models", str(models)]
    for key, secret, why in (
        (keys.public, PASSWORD, "is not a private key in PEM"),
        (tmp_path / "none", PASSWORD, "No such file"),
        (keys.private, "", "its password is missing; use --sign-password-file or OCTOFOLD_SIGN_PASSWORD"),
        (keys.private, "hunter2", "or the password is wrong"),
    ):
        monkeypatch.setenv(PASSWORD_VARIABLE, secret)
        assert main([*map(str, source), *other, "--sign", str(key)]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"octofold-export: --sign: {key}")
        assert why in line
        assert "hunter2" not in line
    assert not (models / "other").exists()
    with pytest.raises(SignatureError):
        PublicKeys(keys.private)
