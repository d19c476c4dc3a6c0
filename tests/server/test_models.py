"""Loading the models of a repository: what one version's failure does to the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from octofold_server.config import Config
from octofold_server.fakes import FakeBackend
from octofold_server.models import Models, State
from octofold_server.repository import ModelError

WriteVersion = Callable[..., Path]


def fails_on_bad_bytes(model: bytes, device: str, max_batch_size: int) -> FakeBackend:
    if model == b"bad":
        raise RuntimeError(f"a bug for {device}\nof {max_batch_size} boards")
    return FakeBackend()


def test_what_nobody_foresaw_fails_one_version_and_the_log_has_the_traceback(
    write_version: WriteVersion, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_version(version=1)
    write_version(version=2, model=b"bad")
    write_version(version=3)
    models = Models(Config(models=tmp_path / "models", lanes=1), fails_on_bad_bytes)
    models.load()
    states = [known.state for known in models.versions]
    assert states == [State.READY, State.FAILED, State.READY]
    assert "unexpected RuntimeError('a bug" in models.versions[1].reason
    assert "tiny/2 cannot be served" in caplog.text
    assert "Traceback" in caplog.text
    assert models.resolve("", "").version == "3"
    models.close()


def test_the_reasons_of_all_failures_make_one_line_when_nothing_is_left(
    write_version: WriteVersion, tmp_path: Path
) -> None:
    write_version(version=1, model=b"bad")
    (write_version(version=2) / "card.json").unlink()
    models = Models(Config(models=tmp_path / "models", device="cpu"), fails_on_bad_bytes)
    with pytest.raises(ModelError) as failure:
        models.load()
    assert str(failure.value) == (
        "no model can be served: tiny/1: unexpected RuntimeError('a bug for cpu\\nof 32 boards'); "
        "tiny/2: card.json cannot be read: No such file or directory"
    )
