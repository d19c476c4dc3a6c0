"""The models of a repository: loading and unloading, what one version's failure does to the others, and what
serves while something changes."""

from __future__ import annotations

import gc
import shutil
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_proto.errors import ModelError, Unavailable, UnknownModel
from octofold_server.backends.backend import Layout, Moves
from octofold_server.backends.fakes import FakeBackend, RecordingBackend
from octofold_server.config.options import Config
from octofold_server.config.policies import parse_policies
from octofold_server.models.registry import Models
from octofold_server.models.version_index import State

WriteVersion = Callable[..., Path]
NewModels = Callable[..., Models]
BOARD = np.ones((1, 16), np.uint8)


class Backends:
    """Makes backends of model files by what these say, and remembers them without keeping them alive."""

    def __init__(self) -> None:
        self.held: list[RecordingBackend] = []
        self.alive: weakref.WeakSet[Any] = weakref.WeakSet()

    def __call__(self, model: bytes, layout: Layout, _tensors: object) -> Any:
        if model == b"bad":
            raise RuntimeError(f"a bug for {layout.device}\nof {layout.max_batch_size} boards")
        if model == b"huge":
            raise MemoryError
        backend: Any = RecordingBackend() if model == b"recording" else Another()
        if model == b"recording":
            self.held.append(backend)
        self.alive.add(backend)
        return [backend]


class Another(FakeBackend):
    def run(self, boards: NDArray[np.uint8]) -> Moves:
        return super().run(boards)


@pytest.fixture
def backends() -> Backends:
    return Backends()


@pytest.fixture
def new_models(tmp_path: Path, backends: Backends) -> Iterator[NewModels]:
    made: list[Models] = []

    def new(policies: str = "all", **arguments: Any) -> Models:
        versions = parse_policies(policies)
        config = Config(models=tmp_path / "models", lanes=1, device="cpu", versions=versions)
        models = Models(config, backends, **arguments)
        made.append(models)
        models.start()
        return models

    yield new
    for models in made:
        for backend in backends.held:
            backend.gate.set()
        models.close()


def states(models: Models) -> dict[str, str]:
    return {f"{status.name}/{status.version}": status.state.name for status in models.index()}


def reason(models: Models, version: int) -> str:
    return next(status.reason for status in models.index() if status.version == version)


def test_what_nobody_foresaw_fails_one_version_and_the_log_has_the_traceback(
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


def test_a_version_that_needs_more_memory_than_there_is_says_so(
    write_version: WriteVersion, new_models: NewModels
) -> None:
    write_version(version=1)
    write_version(version=2, model=b"huge")
    models = new_models()
    assert reason(models, 2) == "there is not enough memory for it"
    assert models.resolve("tiny", "").version == "1"


def test_the_reasons_of_all_failures_make_one_line_when_nothing_is_left(
    write_version: WriteVersion, new_models: NewModels
) -> None:
    write_version(version=1, model=b"bad")
    (write_version(version=2) / "card.json").unlink()
    with pytest.raises(ModelError) as failure:
        new_models()
    assert str(failure.value) == (
        "no model can be served: tiny/1: unexpected RuntimeError('a bug for cpu\\nof 32 boards'); "
        "tiny/2: card.json cannot be read: No such file or directory"
    )


@pytest.mark.parametrize(
    ("policies", "served"),
    [
        ("all", ["a/1", "a/2", "a/3", "b/1", "b/2"]),
        ("latest:1", ["a/3", "b/2"]),
        ("latest:2", ["a/2", "a/3", "b/1", "b/2"]),
        ("1", ["a/1", "b/1"]),
        ("latest:1;a=1,2", ["a/1", "a/2", "b/2"]),
    ],
)
def test_a_policy_chooses_the_versions(
    write_version: WriteVersion, new_models: NewModels, policies: str, served: list[str]
) -> None:
    for name, version in (("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)):
        write_version(name=name, version=version)
    models = new_models(policies)
    assert [f"{model.name}/{model.version}" for model in models.served()] == served
    assert {name for name, state in states(models).items() if state == "READY"} == set(served)
    assert set(states(models).values()) <= {"READY", "UNLOADED"}


def test_the_latest_version_is_the_latest_that_can_be_served(
    write_version: WriteVersion, new_models: NewModels
) -> None:
    write_version(version=1)
    write_version(version=2)
    write_version(version=3, model=b"bad")
    models = new_models("latest:1")
    assert states(models) == {"tiny/1": "UNLOADED", "tiny/2": "READY", "tiny/3": "FAILED"}


def test_a_new_version_takes_over_and_the_old_one_is_freed(
    write_version: WriteVersion, new_models: NewModels, backends: Backends
) -> None:
    write_version(version=1)
    models = new_models("latest:1")
    for version in range(2, 6):
        write_version(version=version)
        models.load("tiny")
        assert models.resolve("tiny", "").version == str(version)
        with pytest.raises(UnknownModel, match=f"ready: tiny/{version}$"):
            models.resolve("tiny", str(version - 1))
    gc.collect()
    assert len(backends.alive) == 1


def test_an_old_version_answers_what_it_has_accepted_before_it_goes(
    write_version: WriteVersion, new_models: NewModels, backends: Backends
) -> None:
    write_version(version=1, model=b"recording")
    models = new_models("latest:1")
    old = models.resolve("", "")
    backends.held[0].gate.clear()
    accepted = [old.batcher.submit(BOARD) for _ in range(100)]
    write_version(version=2)
    loading = threading.Thread(target=models.load, args=("tiny",))
    loading.start()
    while models.resolve("", "").version == "1":
        loading.join(0.01)
    assert states(models)["tiny/1"] == "UNLOADING"
    with pytest.raises(Unavailable, match="tiny/1 is unloading"):
        models.resolve("", "1")
    backends.held[0].gate.set()
    loading.join()
    assert all(call.result().moves.moves.tolist() == [0] for call in accepted)
    assert states(models) == {"tiny/1": "UNLOADED", "tiny/2": "READY"}


@pytest.mark.parametrize("damage", ["truncated", "bad", "not the card's", "another name"])
def test_a_new_version_that_is_broken_changes_nothing_and_the_index_says_why(
    write_version: WriteVersion, new_models: NewModels, damage: str
) -> None:
    write_version(version=1)
    models = new_models("latest:1")
    before = models.resolve("", "")
    if damage == "bad":
        write_version(version=2, model=b"bad")
    elif damage == "another name":
        write_version(version=2, **{"format": 1, "largest_exponent": 99})
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
    assert states(models) == {"tiny/1": "UNLOADED", "tiny/3": "READY"}


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
    assert "its newer files cannot be served: unexpected RuntimeError" in reason(models, 1)


def test_a_model_serves_on_when_its_folder_or_the_whole_repository_is_gone(
    write_version: WriteVersion, new_models: NewModels, tmp_path: Path
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
    write_version(version=2)
    models.reload()
    assert states(models) == {"tiny/2": "READY"}


def test_an_unloaded_model_is_unavailable_until_somebody_loads_it(
    write_version: WriteVersion, new_models: NewModels, backends: Backends
) -> None:
    for version in (1, 2):
        write_version(version=version)
    write_version(name="other")
    models = new_models()
    models.unload("tiny")
    gc.collect()
    assert len(backends.alive) == 1
    for version in ("", "1", "2"):
        with pytest.raises(Unavailable, match="was unloaded by request"):
            models.resolve("tiny", version)
    models.resolve("other", "")
    models.reload()
    assert states(models) == {"other/1": "READY", "tiny/1": "UNLOADED", "tiny/2": "UNLOADED"}
    models.load("tiny")
    assert models.resolve("tiny", "").version == "2"


def test_loading_or_unloading_what_is_not_there_is_an_error(
    write_version: WriteVersion, new_models: NewModels
) -> None:
    write_version()
    models = new_models()
    for change in (models.load, models.unload):
        with pytest.raises(UnknownModel, match="'nobody'"):
            change("nobody")


def test_a_model_that_is_published_later_can_be_loaded_and_does_not_take_the_default(
    write_version: WriteVersion, new_models: NewModels
) -> None:
    write_version()
    models = new_models()
    write_version(name="another")
    with pytest.raises(UnknownModel):
        models.resolve("another", "")
    models.load("another")
    assert models.resolve("another", "").name == "another"
    assert models.resolve("", "").name == "tiny"


def test_health_is_told_whenever_a_model_comes_or_goes(
    write_version: WriteVersion, new_models: NewModels
) -> None:
    write_version()
    told: list[tuple[str, bool]] = []
    models = new_models(on_change=lambda name, ready: told.append((name, ready)))
    models.unload("tiny")
    models.load("tiny")
    changes = [ready for at, (_, ready) in enumerate(told) if at == 0 or told[at - 1][1] != ready]
    assert changes == [False, True, False, True]


@pytest.mark.parametrize("policies", ["1;b=all", "latest:1"])
def test_a_version_that_the_policy_excludes_is_published_later_and_every_other_model_is_reloaded(
    write_version: WriteVersion, new_models: NewModels, policies: str
) -> None:
    serving, excluded = (1, 2) if policies.startswith("1") else (5, 1)
    write_version(name="a", version=serving)
    write_version(name="b", version=1)
    models = new_models(policies)
    write_version(name="a", version=excluded)
    write_version(name="b", version=2)
    models.reload()
    models.load("a")
    assert models.resolve("a", "").version == str(serving)
    assert models.resolve("b", "").version == "2"
    (status,) = (s for s in models.index() if (s.name, s.version) == ("a", excluded))
    assert (status.state, status.reason) == (
        State.UNLOADED,
        f"not served: the policy is {policies.partition(';')[0]}",
    )


def test_what_goes_wrong_with_one_model_leaves_no_other_as_it_was(
    write_version: WriteVersion, new_models: NewModels, caplog: pytest.LogCaptureFixture
) -> None:
    bad: set[str] = set()

    def on_change(name: str, _ready: bool) -> None:
        if name in bad:
            raise RuntimeError("a bug")

    for name in ("a", "b"):
        write_version(name=name)
    models = new_models(on_change=on_change)
    bad.add("a")
    for name in ("a", "b"):
        write_version(name=name, version=2)
    models.reload()
    assert models.resolve("b", "").version == "2"
    assert "a cannot be brought up to date" in caplog.text
    bad.clear()
    models.reload()
    assert models.resolve("a", "").version == "2"


def test_why_a_version_failed_outlives_an_unload_but_not_a_policy_that_passes_it_over(
    write_version: WriteVersion, new_models: NewModels
) -> None:
    write_version(version=1)
    write_version(version=2, model=b"huge")
    models = new_models("latest:1")
    models.unload("tiny")
    assert states(models) == {"tiny/1": "UNLOADED", "tiny/2": "FAILED"}
    assert reason(models, 1) == "unloaded by request"
    assert reason(models, 2) == "there is not enough memory for it"
    write_version(version=3)
    models.load("tiny")
    assert states(models) == {"tiny/1": "UNLOADED", "tiny/2": "UNLOADED", "tiny/3": "READY"}
    assert reason(models, 2) == "not served: the policy is latest:1"


def test_a_version_that_drains_because_of_an_unload_never_says_that_it_was_replaced(
    write_version: WriteVersion, new_models: NewModels, backends: Backends
) -> None:
    for version in (1, 2):
        write_version(version=version, model=b"recording")
    models = new_models()
    backends.held[0].gate.clear()  # of version 2, which is loaded first and drained last
    accepted = models.resolve("", "2").batcher.submit(BOARD)
    unloading = threading.Thread(target=models.unload, args=("tiny",))
    unloading.start()
    while states(models)["tiny/2"] != "UNLOADING":
        unloading.join(0.01)
    assert reason(models, 1) == "unloaded by request"
    backends.held[0].gate.set()
    unloading.join()
    assert accepted.result().moves.moves.tolist() == [0]


def test_nothing_is_loaded_any_more_once_the_server_is_to_end(
    write_version: WriteVersion, new_models: NewModels, backends: Backends
) -> None:
    write_version()
    models = new_models()
    write_version(version=2)
    models.load_no_more()
    for change in (models.reload, lambda: models.load("tiny")):
        with pytest.raises(Unavailable, match="shutting down"):
            change()
    assert models.has_settled(0)
    assert models.resolve("", "").version == "1"
    assert len(backends.alive) == 1


def test_a_name_in_an_error_is_cut_and_escaped(write_version: WriteVersion, new_models: NewModels) -> None:
    write_version()
    models = new_models()
    name = "x\n" * 10_000
    for change in (models.load, models.unload, lambda name: models.resolve(name, "")):
        with pytest.raises(UnknownModel) as failure:
            change(name)
        assert len(str(failure.value)) < 300
        assert "\n" not in str(failure.value)


def test_a_policy_for_a_model_that_is_not_there_is_told(
    write_version: WriteVersion, new_models: NewModels, caplog: pytest.LogCaptureFixture
) -> None:
    write_version()
    new_models("all;tiny=1;nosuch=1")
    assert "--versions has a policy for 'nosuch'" in caplog.text
    assert "'tiny'" not in caplog.text


def test_the_index_tells_what_is_being_loaded(
    write_version: WriteVersion, tmp_path: Path, backends: Backends
) -> None:
    write_version()
    models = Models(Config(models=tmp_path / "models", lanes=1, device="cpu"), backends)
    assert [status.state for status in models.index()] == [State.LOADING]
    with pytest.raises(Unavailable, match="tiny is loading"):
        models.resolve("tiny", "")
