"""Reading a model repository: versions and valid cards."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from octofold_game.contract.model import MAX_CARD_BYTES, GraphFile, ListedFile
from octofold_proto.errors import ModelError
from octofold_server.config.options import Config
from octofold_server.models.registry import Models
from octofold_server.models.repository import (
    MAX_MODEL_BYTES,
    MAX_TENSOR_BYTES,
    PIECE_BYTES,
    VersionFolder,
    find_versions,
    fingerprint,
    read_card,
    read_model,
    read_tensors,
)
from octofold_server.models.version_index import VersionState
from support.servers import WriteVersion


def folder_of(path: Path) -> VersionFolder:
    return VersionFolder(path.parent.name, int(path.name), path)


@contextmanager
def somebody_else() -> Iterator[None]:
    """Run the block as the user nobody, because root may read every folder."""
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_versions_are_sorted_as_numbers_and_other_folders_are_ignored(tmp_path: Path) -> None:
    for version in ("b/2", "b/10", "a/1", "a/latest", "a/.3.partial", "a/01", "a/0", ".hidden/1"):
        (tmp_path / version).mkdir(parents=True)
    (tmp_path / "README").touch()
    (tmp_path / "a" / "config.pbtxt").touch()
    found = [(folder.name, folder.version) for folder in find_versions(tmp_path)]
    assert found == [("a", 1), ("b", 2), ("b", 10)]


def test_a_folder_whose_name_cannot_be_a_models_is_ignored_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (b"caf\xe9", b"two words", b"a=1", b"good-1.0_b"):
        (Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)) / "1").mkdir(parents=True)
    (tmp_path / "no version").mkdir()
    assert [folder.name for folder in find_versions(tmp_path)] == ["good-1.0_b"]
    for told in ("caf\\udce9", "two words", "a=1"):
        assert f"'{told}' is not a valid model name" in caplog.text
    assert "no version" not in caplog.text
    caplog.clear()
    fingerprint(tmp_path)
    assert not caplog.text  # --watch would repeat the message at every look


def test_an_unreadable_folder_is_ignored_and_the_log_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for version in ("a/1", "lost+found/1", "z/2"):
        (tmp_path / version).mkdir(parents=True)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)  # the user nobody may not enter the parent folders
    (tmp_path / "lost+found").chmod(0)
    with somebody_else():
        found = [(folder.name, folder.version) for folder in find_versions(Path())]
    (tmp_path / "lost+found").chmod(0o755)
    assert found == [("a", 1), ("z", 2)]
    assert "ignoring 'lost+found': Permission denied" in caplog.text


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", "other", "name must be 'tiny', as in the path, got 'other'"),
        ("version", 2, "version must be 1, as in the path, got 2"),
        ("precisions", {"fp32": {"file": "../model.onnx", "sha256": "0" * 64}}, "precisions.fp32.file"),
    ],
)
def test_the_error_for_a_wrong_card_names_the_field(
    write_version: WriteVersion, field: str, value: Any, message: str
) -> None:
    path = write_version()
    card = json.loads((path / "card.json").read_text(encoding="utf-8"))
    (path / "card.json").write_text(json.dumps({**card, field: value}), encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        read_card(folder_of(path))


def test_the_returned_bytes_are_the_hashed_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    for written in (digest, digest.upper()):
        assert read_model(tmp_path, GraphFile(file=path.name, sha256=written)) == b"weights"
    path.write_bytes(b"Weights")
    with pytest.raises(ModelError, match=f"does not match the card: its SHA-256 must be {digest}, got"):
        read_model(tmp_path, GraphFile(file=path.name, sha256=digest))


def with_tables(content: bytes) -> GraphFile:
    """Return a graph with a tensor in the file `tables.bin`."""
    tables = ListedFile(file="tables.bin", sha256=hashlib.sha256(content).hexdigest())
    return GraphFile(file="model.onnx", sha256="", tensors={"tables": tables})


def test_external_tensors_are_read_and_verified(tmp_path: Path) -> None:
    values = np.array([1, -2, 0.5], "<f4")
    path = tmp_path / "tables.bin"
    path.write_bytes(values.tobytes())
    file = with_tables(values.tobytes())
    tensors = read_tensors(tmp_path, file)
    path.write_bytes(bytes(12))  # the tensors do not depend on the file
    assert tensors["tables"].tolist() == values.tolist()
    with pytest.raises(ModelError, match=r"tables\.bin does not match the card"):
        read_tensors(tmp_path, file)


def test_a_tensor_of_many_pieces_is_read_in_order(tmp_path: Path) -> None:
    values = np.arange(3 * PIECE_BYTES // 8, dtype="<f4")  # one and a half pieces
    path = tmp_path / "tables.bin"
    path.write_bytes(values.tobytes())
    tensors = read_tensors(tmp_path, with_tables(values.tobytes()))
    np.testing.assert_array_equal(tensors["tables"], values)


def test_a_file_above_the_maximum_size_is_not_read(write_version: WriteVersion) -> None:
    path = write_version()
    with (path / "card.json").open("ab") as card:
        card.truncate(MAX_CARD_BYTES + 1)  # a sparse file, which uses no disk space
    with pytest.raises(
        ModelError, match=f"card.json cannot be read: it has more than {MAX_CARD_BYTES} bytes"
    ):
        read_card(folder_of(path))
    huge = ListedFile(file="huge", sha256="")
    entry = GraphFile(file="huge", sha256="", tensors={"tables": huge})
    for most, read in ((MAX_MODEL_BYTES, read_model), (MAX_TENSOR_BYTES, read_tensors)):
        with (path / "huge").open("wb") as file:
            file.truncate(most + 4)
        with pytest.raises(ModelError, match=f"huge cannot be read: it has more than {most} bytes"):
            read(path, entry)


def test_the_graph_for_moves_alone_is_checked_and_its_absence_is_logged(
    tmp_path: Path,
    write_version: WriteVersion,
    small_graphs: tuple[bytes, bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    small_model, content = small_graphs
    listed = {"file": "model.onnx", "sha256": hashlib.sha256(small_model).hexdigest()}
    moves = {"file": "moves.onnx", "sha256": hashlib.sha256(content).hexdigest()}
    for name, precision in (("without", listed), ("with", {**listed, "moves": moves}), ("other", listed)):
        precisions = {"fp32": precision}
        folder = write_version(
            name, model=small_model, precisions=precisions, decision_rule="vote", symmetries=8
        )
        (folder / "moves.onnx").write_bytes(content)
    card = json.loads((folder / "card.json").read_text())
    card["precisions"]["fp32"]["moves"] = moves
    (folder / "card.json").write_text(json.dumps(card))
    (folder / "moves.onnx").write_bytes(content + b"\0")
    models = Models(Config(models=tmp_path / "models", device="cpu", lanes=1, max_batch_size=8))
    caplog.set_level("INFO")
    models.start()
    assert {status.name: status.state for status in models.index()} == {
        "with": VersionState.READY,
        "without": VersionState.READY,
        "other": VersionState.FAILED,
    }
    models.close()
    (told,) = (line for line in caplog.messages if "octofold-export --extend" in line)
    assert told.startswith("without/1: ")
    assert "moves.onnx does not match the card" in caplog.text


def test_files_that_become_readable_are_changes_but_new_inodes_with_the_same_bytes_are_not(
    write_version: WriteVersion, tmp_path: Path
) -> None:
    card = write_version() / "card.json"
    before = fingerprint(tmp_path / "models")
    status = card.stat()
    copy = tmp_path / "copy"
    copy.write_bytes(card.read_bytes())
    copy.chmod(status.st_mode)
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    copy.replace(card)
    assert fingerprint(tmp_path / "models") == before
    card.chmod(0o600)
    assert fingerprint(tmp_path / "models") != before
