"""Versions with players: loading, refusals in one line, and other versions that continue to serve."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from octofold_game.contract.model import ServedPlayer
from octofold_proto.errors import ModelError, Unavailable, UnknownModel
from octofold_server.config.options import Config
from octofold_server.models.registry import Models
from octofold_server.models.version_index import ON_DEMAND
from support.batches import Awaited, queue
from support.fakes import FakeBackend
from support.player_versions import KINDS, write_player, write_version
from support.registries import BOARD, reason, states
from support.servers import WriteVersion, write_model
from support.waiting import wait_for


@pytest.fixture
def repository(tmp_path: Path, write_version: WriteVersion, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(KINDS)
    write_version("network")
    return tmp_path / "models"


def models_of(repository: Path, *players: str, **options: Any) -> Models:
    config = Config(models=repository, players=players or None, device="cpu", **options)
    return Models(config, lambda *_: [FakeBackend()])


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ({"kind": "foreign"}, "'foreign' is not allowed; --players allows absent, fake"),
        ({"kind": "absent"}, "'absent' needs a_package_that_is_not_there"),
        ({"speed": 3}, "unknown option 'speed'; there are depth, seconds, values"),
        ({"table": b"12345"}, "a table has 4 bytes, not 5"),
        ({"digest": "0" * 64}, "table.bin does not match the card"),
        ({"largest_exponent": 17}, "largest_exponent in card.json must be at most 15, the largest"),
    ],
)
def test_a_player_that_cannot_be_served_gives_one_line_and_others_are_served(
    repository: Path, version: dict[str, Any], why: str
) -> None:
    write_player(repository, **version)
    models = models_of(repository, "absent", "fake")
    models.start()
    assert states(models) == {"network/1": "READY", "player/1": "FAILED"}
    failure = next(status.reason for status in models.index() if status.name == "player")
    assert why in failure
    assert "\n" not in failure
    models.close()


def test_a_kind_that_the_operator_names_must_be_servable(repository: Path) -> None:
    for kind in ("random", "broken"):
        match = rf"'{kind}' cannot be served; these kinds can: expectimax, fake, "
        with pytest.raises(ModelError, match=match) as error:
            models_of(repository, "fake", kind)
        assert not {"random", "broken", "absent"} & set(
            str(error.value).split("these kinds can: ")[1].split(", ")
        )


def test_only_kinds_of_this_distribution_run_unless_others_are_named(repository: Path) -> None:
    write_player(repository)
    models = models_of(repository)
    models.start()
    with pytest.raises(ModelError, match=r"'fake' is not allowed; --players allows expectimax, "):
        models.load("player")
    models.close()


def test_a_player_is_loaded_at_its_first_call(repository: Path) -> None:
    write_player(repository, kind="expectimax", table=b"", largest_exponent=17)
    models = models_of(repository)
    models.start()
    assert models.names_with_exponent(16) == ["player"]
    assert states(models) == {"network/1": "READY", "player/1": "UNLOADED"}
    assert models.index()[-1].reason == ON_DEMAND
    models.reload()
    assert models.index()[-1].reason == ON_DEMAND
    with pytest.raises(Unavailable, match=f"player is {ON_DEMAND}"):
        models.resolve("player", "")  # only a call loads a player
    assert models.index()[-1].reason == ON_DEMAND
    with pytest.raises(Unavailable, match="player is loading"):
        models.resolve("player", "", loads=True)
    wait_for(lambda: states(models)["player/1"] == "FAILED")  # its file is empty
    models.close()


def test_a_player_is_loaded_later_if_the_repository_could_not_be_read(
    repository: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    write_player(repository, kind="expectimax", table=b"")
    models = models_of(repository)
    models.start()
    away = repository.rename(repository.with_name("away"))
    with pytest.raises(Unavailable, match="player is loading"):
        models.resolve("player", "", loads=True)
    wait_for(lambda: "cannot load the player player, which a call asked for" in caplog.text)
    away.rename(repository)

    def is_tried() -> bool:
        with suppress(Unavailable, UnknownModel):
            models.resolve("player", "", loads=True)
        return states(models)["player/1"] == "FAILED"  # its file is empty

    wait_for(is_tried)
    models.close()


@pytest.mark.parametrize("options", [{}, {"default_model": "player"}])
def test_a_player_that_the_operator_names_is_loaded_at_the_start(
    repository: Path, options: dict[str, Any]
) -> None:
    write_player(repository)
    models = models_of(repository, "fake", **options)
    models.start()
    assert states(models) == {"network/1": "READY", "player/1": "READY"}
    models.close()


def test_a_new_version_of_a_player_replaces_the_old_one(repository: Path) -> None:
    write_player(repository)
    models = models_of(repository, "fake")
    models.start()
    old = models.resolve("player", "")
    write_player(repository, version=2, depth=3)
    models.reload()
    assert models.resolve("player", "").version == "2"
    write_player(repository, version=3, speed=3)  # the player has no option `speed`
    models.reload()
    assert models.resolve("player", "").version == "2"
    assert "unknown option" in reason(models, 3)
    models.unload("player")
    with pytest.raises(Unavailable):
        models.resolve("player", "")
    with pytest.raises(Unavailable):
        queue(old.batcher, Awaited(BOARD))
    models.close()


def test_a_call_without_a_version_loads_a_newer_player_and_the_older_network_answers_meanwhile(
    repository: Path, graph: bytes
) -> None:
    write_model(repository, graph, "both")
    described = ServedPlayer(kind="expectimax", options={"depth": 1})
    write_version(repository / "both" / "2", described, {}, "heuristic points")
    models = models_of(repository)
    models.start()
    assert states(models) == {"both/1": "READY", "both/2": "UNLOADED", "network/1": "READY"}
    assert models.resolve("both", "").version == "1"  # only a call loads a player
    assert models.index()[1].reason == ON_DEMAND
    assert models.resolve("both", "", loads=True).version == "1"
    wait_for(lambda: models.resolve("both", "", loads=True).version == "2")
    assert models.resolve("both", "1").version == "1"
    models.close()
