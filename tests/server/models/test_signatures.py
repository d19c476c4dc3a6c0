"""--verify-models: which versions are served, and what is said of the others."""

import logging
from pathlib import Path

import pytest
from octofold_game.model import CARD_FILE, SIGNATURE_FILE
from octofold_proto.errors import ModelError
from octofold_server.models.registry import Models
from octofold_server.models.signatures import Signatures
from octofold_server.models.tuning_file import FILE as TUNING_FILE
from octofold_server.models.tuning_file import read_tuning
from octofold_server.system.reread import FileError
from support.registries import NewModels, reason, states
from support.servers import WriteVersion
from support.signing import KeyPair, new_keys, sign_officially


@pytest.fixture
def keys(tmp_path: Path) -> KeyPair:
    return new_keys(tmp_path, "ours")


@pytest.fixture
def version(write_version: WriteVersion, keys: KeyPair) -> Path:
    """A signed version with files that are loaded and others."""
    folder = write_version()
    (folder / "README.md").write_text("tiny")
    (folder / "model.fp16.onnx").write_bytes(b"not served")
    keys.sign(folder)
    return folder


@pytest.fixture
def verified(new_models: NewModels, keys: KeyPair) -> Models:
    """The models, which are verified."""
    return new_models(signatures=Signatures(keys.public))


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


FILES = [CARD_FILE, "README.md", "model.onnx", "model.fp16.onnx", SIGNATURE_FILE]


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_byte_in_any_file_is_refused_at_the_start(
    version: Path, new_models: NewModels, keys: KeyPair, name: str
) -> None:
    flip(version / name)
    with pytest.raises(ModelError, match=rf"no model can be served: tiny/1: '?{name}") as refused:
        new_models(signatures=Signatures(keys.public))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", FILES)
def test_a_byte_flipped_later_is_told_at_the_reload_and_the_old_version_serves(
    version: Path, verified: Models, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = verified.resolve("tiny", "")
    verified.reload()
    assert reason(verified, 1) == ""
    flip(version / name)
    with caplog.at_level(logging.ERROR):
        verified.reload()
    assert verified.resolve("tiny", "") is before
    assert reason(verified, 1).startswith("its newer files cannot be served: ")
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith("tiny/1 cannot be served: ")
    assert name in line
    flip(version / name)
    verified.reload()
    assert (verified.resolve("tiny", ""), reason(verified, 1)) == (before, "")


def test_versions_without_a_signature_or_by_another_key_are_not_served(
    write_version: WriteVersion, tmp_path: Path, new_models: NewModels, keys: KeyPair
) -> None:
    keys.sign(write_version())
    write_version(version=2)
    new_keys(tmp_path, "theirs").sign(write_version(version=3))
    sign_officially(write_version(version=4), keys)
    models = new_models(signatures=Signatures(keys.public))
    assert states(models) == {"tiny/1": "READY", "tiny/2": "FAILED", "tiny/3": "FAILED", "tiny/4": "READY"}
    assert reason(models, 2) == "model.sig is missing: the version is not signed"
    assert reason(models, 3) == f"model.sig was made with another key than {keys.public}"


def test_a_file_that_was_added_or_removed_is_named(version: Path, verified: Models) -> None:
    (version / "weights.bin").write_bytes(b"1234")
    (version / ".gitattributes").write_text("ignored, as by the official tool")
    verified.reload()
    assert "'weights.bin' is not in the signature" in reason(verified, 1)
    (version / "weights.bin").unlink()
    (version / "model.fp16.onnx").unlink()
    verified.reload()
    assert "'model.fp16.onnx' is in the signature, but missing" in reason(verified, 1)


def test_the_card_cannot_name_a_file_that_is_not_signed(
    version: Path, new_models: NewModels, keys: KeyPair
) -> None:
    """The signer signed a card that contradicts the files beside it."""
    (version / "model.onnx").write_bytes(b"another graph")
    keys.sign(version)
    with pytest.raises(ModelError, match=r"'model\.onnx' is not as it was signed: its SHA-256 is"):
        new_models(signatures=Signatures(keys.public))


def test_the_signature_of_another_version_does_not_hold(
    version: Path, write_version: WriteVersion, new_models: NewModels, keys: KeyPair
) -> None:
    copy = write_version(version=2)
    for file in version.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    models = new_models(signatures=Signatures(keys.public))
    assert states(models) == {"tiny/1": "READY", "tiny/2": "FAILED"}
    assert "version is 1, not 2" in reason(models, 2)


def test_only_a_signed_tuning_file_is_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / TUNING_FILE).write_text('{"format": 1, "devices": {}}')
    read_tuning(tmp_path, "cpu", "ab" * 32, "")
    assert "it is not as it was signed" in caplog.text


def test_a_key_that_changes_counts_from_the_next_load(
    version: Path, verified: Models, tmp_path: Path, keys: KeyPair
) -> None:
    theirs = new_keys(tmp_path, "theirs")
    keys.public.write_bytes(theirs.public.read_bytes())
    verified.reload()
    assert "was made with another key" in reason(verified, 1)
    theirs.sign(version)
    verified.reload()
    assert reason(verified, 1) == ""


def test_a_key_that_cannot_be_used_is_an_error_at_the_start(keys: KeyPair) -> None:
    with pytest.raises(FileError, match=r"^--verify-models: .*ours\.pem contains no public key"):
        Signatures(keys.private)
