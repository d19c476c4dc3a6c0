"""The models of a repository: loading, unloading, failures of one version beside others, and service during
changes."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from octofold_proto.errors import ModelError, Unavailable, UnknownModel
from octofold_server.config.options import Config
from octofold_server.models.registry import Models
from octofold_server.models.version_index import VersionState
from support.registries import Backends, NewModels, reason, settled, states, submit
from support.servers import WriteVersion
from support.waiting import wait_for


def test_an_unexpected_exception_fails_one_version_and_the_log_has_the_traceback(
    write_version: WriteVersion, new_models: NewModels, caplog: pytest.LogCaptureFixture
) -> None:
    write_version(version=1)
    write_version(version=2, model=b"bad")
    write_version(version=3)
    models = new_models()
    assert list(states(models).values()) == ["READY", "FAILED", "READY"]
    assert "unexpected RuntimeError('a bug" in reason(models, 2)
    assert "tiny/2 cannot be served" in caplog.text
    assert "Traceback" in caplog.text
    assert models.resolve("", "").version == "3"


def test_a_policy_that_selects_no_version_of_a_model_is_logged(
    write_version: WriteVersion, new_models: NewModels, caplog: pytest.LogCaptureFixture
) -> None:
    write_version(name="a")
    write_version(name="b")
    new_models("all;b=9;nobody=latest:1")
    for rule, name in (("9", "b"), ("latest:1", "nobody")):
        expected = f"the rule {rule} of --versions selects no version of {name} in the model repository"
        assert expected in caplog.text


def test_a_new_version_takes_over_and_the_old_one_is_freed(
    write_version: WriteVersion, new_models: NewModels, backends: Backends
) -> None:
    write_version(version=1)
    models = new_models("latest:1")
    for version in range(2, 6):
        write_version(version=version)
        models.load("tiny")
        assert models.resolve("tiny", "").version == str(version)
        settled(models)
        with pytest.raises(UnknownModel, match=f"ready models: tiny/{version}$"):
            models.resolve("tiny", str(version - 1))
    assert len(backends.alive) == 1


@pytest.mark.parametrize("change", ["load", "reload", "unload", "forget"])
def test_a_version_finishes_accepted_calls_without_delaying_others(
    write_version: WriteVersion, new_models: NewModels, backends: Backends, tmp_path: Path, change: str
) -> None:
    write_version("busy", model=b"recording")
    write_version("other")
    models = new_models("latest:1")
    old = models.resolve("busy", "")
    backends.held[0].gate.clear()
    accepted = [submit(old) for _ in range(100)]
    if change == "unload":
        models.unload("busy")
    else:
        write_version("busy", version=2)
        if change == "forget":
            shutil.rmtree(tmp_path / "models" / "busy" / "1")
        models.load("busy") if change == "load" else models.reload()
        assert models.resolve("busy", "").version == "2"
    assert states(models)["busy/1"] == "UNLOADING"
    with pytest.raises(Unavailable, match="busy/1 is unloading"):
        models.resolve("busy", "1")
    write_version("other", version=2)
    models.load("other")
    models.unload("other")
    models.load("other")
    models.load("busy")
    assert models.resolve("other", "").version == "2"
    assert ("busy", "1") in models.statistics()
    assert not any(call.done for call in accepted)
    backends.held[0].gate.set()
    assert all(call.result().moves.moves.tolist() == [0] for call in accepted)
    after = {"load": "UNLOADED", "reload": "UNLOADED", "unload": "READY"}.get(change)
    assert settled(models).get("busy/1") == after
    assert (("busy", "1") in models.statistics()) is (change != "forget")


def test_closing_waits_for_draining_versions(
    write_version: WriteVersion, new_models: NewModels, backends: Backends
) -> None:
    write_version(model=b"recording")
    models = new_models()
    backends.held[0].gate.clear()
    accepted = submit(models.resolve("", ""))
    models.unload("tiny")
    closing = threading.Thread(target=models.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive()
    backends.held[0].gate.set()
    closing.join()
    assert accepted.done


@pytest.mark.parametrize("damage", ["truncated", "bad", "not the card's", "another name"])
def test_a_broken_new_version_changes_nothing_and_the_index_says_why(
    write_version: WriteVersion, new_models: NewModels, damage: str
) -> None:
    write_version(version=1)
    models = new_models("latest:1")
    before = models.resolve("", "")
    if damage == "bad":
        write_version(version=2, model=b"bad")
    elif damage == "another name":
        write_version(version=2, format=1, largest_exponent=99)
    else:
        folder = write_version(version=2)
        model = (folder / "model.onnx").read_bytes()
        (folder / "model.onnx").write_bytes(model[:-9] if damage == "truncated" else model + b"\0")
    with pytest.raises(ModelError, match="tiny/2: "):
        models.load("tiny")
    assert models.resolve("", "") is before
    assert states(models) == {"tiny/1": "READY", "tiny/2": "FAILED"}
    assert reason(models, 2)
    shutil.rmtree(write_version(version=3).with_name("2"))
    models.load("tiny")
    assert settled(models) == {"tiny/1": "UNLOADED", "tiny/3": "READY"}


def test_a_version_whose_files_have_changed_is_loaded_again_beside_the_old_ones(
    write_version: WriteVersion, new_models: NewModels
) -> None:
    folder = write_version(strength=None)
    models = new_models()
    before = models.resolve("", "")
    models.reload()
    assert models.resolve("", "") is before
    shutil.rmtree(folder)
    write_version(exporter="newer")
    models.reload()
    after = models.resolve("", "")
    assert after is not before
    assert after.statistics is before.statistics  # counters never go backwards
    shutil.rmtree(folder)
    write_version(model=b"bad")
    models.reload()
    assert models.resolve("", "") is after
    assert states(models) == {"tiny/1": "READY"}
    assert "its new files cannot be served: unexpected RuntimeError" in reason(models, 1)


def test_a_model_is_served_after_its_folder_or_the_repository_disappears(
    write_version: WriteVersion, new_models: NewModels, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_version()
    models = new_models()
    (tmp_path / "models").rename(tmp_path / "away")
    with pytest.raises(ModelError, match="cannot read the model repository"):
        models.reload()
    (tmp_path / "models").mkdir()
    models.reload()
    assert models.resolve("", "").version == "1"
    assert "its folder is gone" in reason(models, 1)
    assert "tiny/1: its folder is gone" in caplog.text
    write_version(version=2)
    models.reload()
    assert settled(models) == {"tiny/2": "READY"}


def test_the_index_shows_versions_that_are_loading(
    write_version: WriteVersion, tmp_path: Path, backends: Backends
) -> None:
    goes_on = threading.Event()

    def slow_backends(*version: Any) -> Any:
        assert goes_on.wait(60)
        return backends(*version)

    write_version()
    models = Models(Config(models=tmp_path / "models", lanes=1, device="cpu"), slow_backends)
    assert [status.state for status in models.index()] == [VersionState.LOADING]
    with pytest.raises(Unavailable, match="tiny is loading"):
        models.resolve("tiny", "")
    with ThreadPoolExecutor() as starting:
        started = starting.submit(models.start)
        wait_for(lambda: [status.name for status in models.loading()] == ["tiny"])
        goes_on.set()
        started.result()
    assert models.loading() == []
    models.close()
