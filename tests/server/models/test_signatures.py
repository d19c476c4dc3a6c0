"""--verify-models: which versions are served, and what is said of the others."""

import hashlib
import json
import logging
from pathlib import Path

import pytest
from octofold_game.contract.model import CARD_FILE, SIGNATURE_FILE, TUNING_FILE
from octofold_proto.errors import ModelError
from octofold_server.models.registry import Models
from octofold_server.models.signatures import Signatures
from octofold_server.system.reread import FileError
from support.registries import NewModels, reason, states
from support.servers import WriteVersion
from support.signing import KeyPair, new_keys


@pytest.fixture
def keys(tmp_path: Path) -> KeyPair:
    return new_keys(tmp_path, "ours")


@pytest.fixture
def version(write_version: WriteVersion, keys: KeyPair) -> Path:
    """A signed version."""
    folder = write_version()
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


@pytest.mark.parametrize("name", [CARD_FILE, "model.onnx", SIGNATURE_FILE])
def test_a_flipped_byte_in_what_is_loaded_is_refused_at_the_start(
    version: Path, new_models: NewModels, keys: KeyPair, name: str
) -> None:
    flip(version / name)
    with pytest.raises(ModelError, match=r"no model can be served: tiny/1: ") as refused:
        new_models(signatures=Signatures(keys.public))
    assert name in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", [CARD_FILE, SIGNATURE_FILE])
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
    models = new_models(signatures=Signatures(keys.public))
    assert states(models) == {"tiny/1": "READY", "tiny/2": "FAILED", "tiny/3": "FAILED"}
    assert reason(models, 2) == "card.json.sig is missing: the version is not signed"
    assert reason(models, 3) == f"card.json.sig does not hold: no key in {keys.public} has signed this card"


def test_the_signature_of_another_version_does_not_hold(
    version: Path, write_version: WriteVersion, new_models: NewModels, keys: KeyPair
) -> None:
    copy = write_version(version=2)
    for file in version.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    models = new_models(signatures=Signatures(keys.public))
    assert states(models) == {"tiny/1": "READY", "tiny/2": "FAILED"}
    assert "version is 1, not 2" in reason(models, 2)


@pytest.mark.parametrize("listed", [False, True])
def test_only_a_tuning_file_that_the_signed_card_lists_is_used(
    version: Path, new_models: NewModels, keys: KeyPair, caplog: pytest.LogCaptureFixture, listed: bool
) -> None:
    content = b'{"format": 1, "devices": {}}'
    (version / TUNING_FILE).write_bytes(content)
    if listed:
        card = json.loads((version / CARD_FILE).read_text())
        card["tuning_sha256"] = hashlib.sha256(content).hexdigest()
        (version / CARD_FILE).write_text(json.dumps(card))
        keys.sign(version)
    new_models(signatures=Signatures(keys.public))
    assert ("the signed card does not list it" in caplog.text) is not listed


def test_a_key_that_changes_counts_from_the_next_load(
    version: Path, verified: Models, tmp_path: Path, keys: KeyPair
) -> None:
    theirs = new_keys(tmp_path, "theirs")
    keys.public.write_bytes(theirs.public.read_bytes())
    verified.reload()
    assert "does not hold" in reason(verified, 1)
    theirs.sign(version)
    verified.reload()
    assert reason(verified, 1) == ""


def test_a_key_that_cannot_be_used_is_an_error_at_the_start(keys: KeyPair) -> None:
    with pytest.raises(FileError, match=r"^--verify-models: .*ours\.pem contains no public key"):
        Signatures(keys.private)
