"""Versions appear in a model repository complete or not at all, and never change."""

import os
import signal
import subprocess
import sys
from collections import UserDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from octofold_export.errors import ExportError
from octofold_export.publishing.repository import (
    VersionExistsError,
    check_name,
    check_publishable,
    locked_version,
    next_version,
    publish,
    replace_files,
)

FILES = {"model.onnx": b"graph", "card.json": b"{}"}


def everything_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_version_contains_its_files_and_the_model_its_configuration(tmp_path: Path) -> None:
    folder = publish(tmp_path / "models", "cnn5", 1, FILES, "name: cnn5")
    assert folder == tmp_path / "models/cnn5/1"
    assert everything_below(tmp_path / "models/cnn5") == [
        "1",
        "1/card.json",
        "1/model.onnx",
        "config.pbtxt",
    ]
    assert (folder / "model.onnx").read_bytes() == b"graph"
    assert (tmp_path / "models/cnn5/config.pbtxt").read_text() == "name: cnn5"


def test_other_accounts_may_read_published_files(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        folder = publish(tmp_path, "cnn5", 1, FILES, "")
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o755
    assert (folder / "model.onnx").stat().st_mode & 0o777 == 0o644


def test_the_next_version_follows_the_largest_and_ignores_other_files(tmp_path: Path) -> None:
    assert next_version(tmp_path, "cnn5") == 1
    for name in ("1", "10", ".publishing-11-1", "notes"):
        (tmp_path / "cnn5" / name).mkdir(parents=True)
    assert next_version(tmp_path, "cnn5") == 11


def test_an_existing_version_is_never_touched(tmp_path: Path) -> None:
    publish(tmp_path, "cnn5", 1, FILES, "old")
    with pytest.raises(ExportError, match="never replaced"):
        check_publishable(tmp_path, "cnn5", 1)
    before = everything_below(tmp_path)
    with pytest.raises(ExportError, match="never replaced"):
        publish(tmp_path, "cnn5", 1, {"model.onnx": b"other"}, "old")
    assert everything_below(tmp_path) == before
    assert (tmp_path / "cnn5/1/model.onnx").read_bytes() == b"graph"


def test_a_failure_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    unwritable = {"model.onnx": b"graph", "missing/card.json": b"{}"}
    with pytest.raises(ExportError, match="No such file"):
        publish(tmp_path / "models", "cnn5", 1, unwritable, "")
    assert everything_below(tmp_path) == []


class OvertakenFiles(dict[str, bytes]):
    """Files of version 1. While they are written, another export publishes the same version."""

    def __init__(self, models: Path) -> None:
        super().__init__(FILES)
        self.models = models

    def items(self) -> Any:
        (self.models / "cnn5/1").mkdir()
        (self.models / "cnn5/1/model.onnx").write_bytes(b"faster")
        (self.models / "cnn5/config.pbtxt").write_text("name: cnn5")
        return super().items()


def test_the_slower_of_two_exports_does_not_change_the_version_of_the_faster(tmp_path: Path) -> None:
    with pytest.raises(VersionExistsError, match="cnn5/1 exists; published versions are never replaced"):
        publish(tmp_path / "models", "cnn5", 1, OvertakenFiles(tmp_path / "models"), "name: cnn5")
    assert everything_below(tmp_path / "models/cnn5") == ["1", "1/model.onnx", "config.pbtxt"]


SLOW_EXPORT = """
import sys
from pathlib import Path
from octofold_export.publishing.repository import publish

class Slow(dict):
    def items(self):
        print("writing", flush=True)
        sys.stdin.readline()
        return super().items()

publish(Path(sys.argv[1]), "cnn5", 1, Slow({"model.onnx": b"slow"}), "slow")
"""


@contextmanager
def export_in_the_middle(models: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that publishes version 1 and waits for an input line before it writes the graph."""
    command = [sys.executable, "-c", SLOW_EXPORT, str(models)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        yield process
        process.kill()


def temporary_folders(model: Path) -> list[Path]:
    return list(model.glob(".publishing-*"))


def test_the_next_export_removes_the_files_of_a_killed_one(tmp_path: Path) -> None:
    with export_in_the_middle(tmp_path) as process:
        process.kill()
    assert len(temporary_folders(tmp_path / "cnn5")) == 1
    (tmp_path / "cnn5/.publishing-notes").symlink_to(tmp_path)
    publish(tmp_path, "cnn5", 1, FILES, "new")
    assert everything_below(tmp_path / "cnn5") == [
        ".publishing-notes",
        "1",
        "1/card.json",
        "1/model.onnx",
        "config.pbtxt",
    ]


def test_a_running_export_keeps_its_temporary_folder(tmp_path: Path) -> None:
    with export_in_the_middle(tmp_path) as process:
        publish(tmp_path, "cnn5", 2, FILES, "faster")
        assert len(temporary_folders(tmp_path / "cnn5")) == 1
        process.communicate("go on\n")
        assert process.returncode == 0
    assert (tmp_path / "cnn5/1/model.onnx").read_bytes() == b"slow"
    assert (tmp_path / "cnn5/2/model.onnx").read_bytes() == b"graph"
    assert temporary_folders(tmp_path / "cnn5") == []


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "/a", "a\\b", ".hidden", "-x", "a b", "a" * 129, "a\n"]
)
def test_unsafe_names_are_refused(name: str) -> None:
    with pytest.raises(ExportError, match="model name"):
        check_name(name)


class Interrupted(UserDict[str, bytes]):
    """Files whose last one raises KeyboardInterrupt when it is read, as after Ctrl-C."""

    def __getitem__(self, name: str) -> bytes:
        if name == list(self)[-1]:
            raise KeyboardInterrupt
        return super().__getitem__(name)


def test_either_all_files_are_replaced_or_none(tmp_path: Path) -> None:
    replace_files(tmp_path, FILES)
    with pytest.raises(KeyboardInterrupt):
        replace_files(tmp_path, Interrupted(dict.fromkeys(FILES, b"new")))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == FILES
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(OSError, match="No such file"):
        replace_files(tmp_path, {"card.json": b"newer", "missing/README.md": b"newer"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == FILES
    replace_files(tmp_path, {"card.json": b"new"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == FILES | {"card.json": b"new"}


def test_the_next_change_removes_the_files_of_a_killed_one(tmp_path: Path) -> None:
    for file in ("card.json.0123456789abcdef.partial", "other.json.12-34.partial", "notes.partial"):
        (tmp_path / file).write_bytes(b"half")
    with locked_version(tmp_path):
        replace_files(tmp_path, FILES)
    assert everything_below(tmp_path) == [
        "card.json",
        "model.onnx",
        "notes.partial",
        "other.json.12-34.partial",
    ]
