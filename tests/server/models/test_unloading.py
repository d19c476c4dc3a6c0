"""Models that are loaded and unloaded by request, and the policies that select versions."""

from __future__ import annotations

import pytest
from octofold_proto.errors import ModelError, Unavailable, UnknownModel
from octofold_server.models.version_index import VersionState
from support.registries import Backends, NewModels, settled, states
from support.servers import WriteVersion


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


def test_latest_means_the_latest_version_that_can_be_served(
    write_version: WriteVersion, new_models: NewModels
) -> None:
    write_version(version=1)
    write_version(version=2)
    write_version(version=3, model=b"bad")
    models = new_models("latest:1")
    assert states(models) == {"tiny/1": "UNLOADED", "tiny/2": "READY", "tiny/3": "FAILED"}


def test_an_unloaded_model_is_unavailable_until_it_is_loaded(
    write_version: WriteVersion, new_models: NewModels, backends: Backends
) -> None:
    for version in (1, 2):
        write_version(version=version)
    write_version(name="other")
    models = new_models()
    models.unload("tiny")
    settled(models)
    assert len(backends.alive) == 1
    for asked in ("", "1", "2"):
        with pytest.raises(Unavailable, match="was unloaded by request"):
            models.resolve("tiny", asked)
    models.resolve("other", "")
    models.reload()
    assert states(models) == {"other/1": "READY", "tiny/1": "UNLOADED", "tiny/2": "UNLOADED"}
    write_version(name="broken", model=b"bad")
    models.default = "broken"
    with pytest.raises(ModelError, match=r"cannot be served; ready models: other$"):
        models.start()
    models.load("tiny")
    assert models.resolve("tiny", "").version == "2"


def test_a_model_that_is_published_later_can_be_loaded_and_does_not_become_the_default(
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


def test_the_shipped_model_is_the_default_if_several_can_be_served(
    write_version: WriteVersion, new_models: NewModels
) -> None:
    for name in ("a", "flagship"):
        write_version(name=name)
    assert new_models().resolve("", "").name == "flagship"


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
        VersionState.UNLOADED,
        f"not served: the rule of --versions is {policies.partition(';')[0]}",
    )
