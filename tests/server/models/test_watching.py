"""A watched folder: what could not be read is tried again, and the same bytes are no news."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from octofold_server.backends.backend import Backend, Layout
from octofold_server.config.options import Config
from octofold_server.models.registry import Models
from octofold_server.models.reloading import Reloading
from octofold_server.models.repository import fingerprint
from octofold_server.models.version_index import VersionState
from support.fakes import FakeBackend
from support.servers import WriteVersion
from support.waiting import wait_for


def models_of(folder: Path) -> Models:
    return Models(Config(models=folder, lanes=1), lambda _, layout, *__: [FakeBackend()] * layout.lanes)


def test_a_version_for_which_memory_was_short_is_tried_again(
    write_version: WriteVersion, tmp_path: Path
) -> None:
    write_version("one")
    short = [True]

    def new_backends(_: object, layout: Layout, *_files: object) -> Sequence[Backend]:
        if short and short.pop():
            raise MemoryError
        return [FakeBackend()] * layout.lanes

    write_version("two")
    models = Models(Config(models=tmp_path / "models", lanes=1), new_backends)
    models.start()
    assert models.may_do_better
    watching = Reloading(models, tmp_path / "models", 0.05, again_seconds=0)
    watching.start()
    try:
        wait_for(lambda: {one.state for one in models.index()} == {VersionState.READY})
        wait_for(lambda: not models.may_do_better)
    finally:
        watching.close(10)
        models.close()


def test_a_card_that_cannot_be_read_is_tried_again(write_version: WriteVersion, tmp_path: Path) -> None:
    write_version("one")
    card = write_version("two") / "card.json"
    card.unlink()
    card.symlink_to(card)
    models = models_of(tmp_path / "models")
    models.start()
    assert models.may_do_better
    models.close()


def test_a_card_that_is_wrong_is_not_tried_again(write_version: WriteVersion, tmp_path: Path) -> None:
    write_version("one")
    (write_version("two") / "card.json").write_text(json.dumps({"format": 1}))
    models = models_of(tmp_path / "models")
    models.start()
    assert not models.may_do_better
    models.close()


def test_a_file_that_becomes_readable_changes_the_fingerprint(
    write_version: WriteVersion, tmp_path: Path
) -> None:
    card = write_version() / "card.json"
    before = fingerprint(tmp_path / "models")
    card.chmod(0o600)
    assert fingerprint(tmp_path / "models") != before


def test_new_inodes_with_the_same_bytes_are_no_news(
    write_version: WriteVersion, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    card = write_version() / "card.json"
    models = models_of(tmp_path / "models")
    models.start()
    watching = Reloading(models, tmp_path / "models", 0.05)
    watching.start()
    status = card.stat()
    copy = tmp_path / "copy"
    copy.write_bytes(card.read_bytes())
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    copy.replace(card)

    def told() -> list[str]:
        return [one.levelname for one in caplog.records if "folder has changed" in one.getMessage()]

    try:
        wait_for(lambda: bool(told()))
    finally:
        watching.close(10)
        models.close()
    assert told()[-1] == "DEBUG"
