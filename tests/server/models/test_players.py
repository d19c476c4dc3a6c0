"""Versions that hold players: what is loaded, what is refused in one line, and that the others serve on."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from octofold_game.contract.model import read_card
from octofold_proto.errors import ModelError, Unavailable, UnknownModel
from octofold_server.backends.fakes import FakeBackend
from octofold_server.batching.call import Call
from octofold_server.config.options import Config
from octofold_server.models.on_demand import WHEN_ASKED, OnDemand
from octofold_server.models.player_files import PlayerFiles
from octofold_server.models.registry import Models
from support.player_versions import KINDS, TABLE, write_player
from support.registries import BOARD, reason, states
from support.servers import WriteVersion
from support.waiting import wait_for


@pytest.fixture
def repository(tmp_path: Path, write_version: WriteVersion, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(KINDS)
    write_version("network")
    return tmp_path / "models"


def models_of(repository: Path, *players: str, **options: Any) -> Models:
    config = Config(models=repository, players=players or None, **options)
    return Models(config, lambda *_: [FakeBackend()])


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ({"kind": "foreign"}, "'foreign' is not allowed; --players allows absent, broken, fake"),
        ({"kind": "absent"}, "'absent' needs a_package_that_is_not_there"),
        ({"kind": "broken"}, "'broken' cannot be served"),
        ({"speed": 3}, "unknown option 'speed'; there are depth, seconds, values"),
        ({"table": b"12345"}, "a table has 4 bytes, not 5"),
        ({"table": b""}, "table.bin cannot be read"),
        ({"digest": "0" * 64}, "table.bin does not match the card"),
        ({"largest_exponent": 17}, "accepts tiles up to exponent 15, but card.json says 17"),
    ],
)
def test_a_player_that_cannot_be_served_is_one_line_and_the_others_serve_on(
    repository: Path, version: dict[str, Any], why: str
) -> None:
    write_player(repository, **version)
    models = models_of(repository, "absent", "broken", "fake")
    models.start()
    assert states(models) == {"network/1": "READY", "player/1": "FAILED"}
    failure = next(status.reason for status in models.index() if status.name == "player")
    assert why in failure
    assert "\n" not in failure
    models.close()


def test_a_missing_file_is_one_line(repository: Path) -> None:
    (write_player(repository) / "table.bin").unlink()
    models = models_of(repository, "fake")
    models.start()
    assert "table.bin cannot be read: No such file" in models.index()[-1].reason
    models.close()


def test_files_that_do_not_fit_into_memory_are_refused_before_they_are_read(repository: Path) -> None:
    folder = write_player(repository)
    with (folder / "table.bin").open("r+b") as file:
        file.truncate(3 << 30)
    player = read_card(folder).player
    assert player is not None
    with pytest.raises(ModelError, match=r"table.bin does not fit into memory: .* 3.0 GiB .* 2.0 GiB"):
        PlayerFiles(memory=2 << 30).map(folder, player)


def test_a_kind_that_the_operator_names_must_be_there(repository: Path) -> None:
    with pytest.raises(ModelError, match=r"--players: no installed package has .* 'fale'; there are absent"):
        models_of(repository, "fale")


def test_only_kinds_of_this_distribution_run_unless_others_are_named(repository: Path) -> None:
    write_player(repository)
    models = models_of(repository)
    models.start()
    with pytest.raises(ModelError, match=r"'fake' is not allowed; --players allows expectimax, "):
        models.load("player")
    models.close()


def test_a_player_is_loaded_when_a_call_first_asks_for_it(repository: Path) -> None:
    write_player(repository, kind="expectimax", table=b"")
    models = models_of(repository)
    models.start()
    assert states(models) == {"network/1": "READY", "player/1": "UNLOADED"}
    assert models.index()[-1].reason == WHEN_ASKED
    models.reload()
    assert models.index()[-1].reason == WHEN_ASKED
    with pytest.raises(Unavailable, match="player is loading"):
        models.resolve("player", "")  # a question about the model is no call
    assert models.index()[-1].reason == WHEN_ASKED
    with pytest.raises(Unavailable, match="player is loading"):
        models.resolve("player", "", loads=True)
    wait_for(lambda: states(models)["player/1"] == "FAILED")  # its file is empty
    models.close()


def test_calls_that_ask_for_a_player_at_once_load_it_once() -> None:
    begun: list[str] = []
    goes_on = threading.Event()

    def load(name: str) -> None:
        begun.append(name)
        assert goes_on.wait(60)

    on_demand = OnDemand((), everything=False)
    with ThreadPoolExecutor(16) as callers:
        list(callers.map(lambda _: on_demand.load("player", load), range(200)))
    wait_for(lambda: bool(begun))
    assert begun == ["player"]
    goes_on.set()


def test_a_player_is_asked_for_again_when_the_repository_could_not_be_read(
    repository: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    write_player(repository, kind="expectimax", table=b"")
    models = models_of(repository)
    models.start()
    away = repository.rename(repository.with_name("away"))
    with pytest.raises(Unavailable, match="player is loading"):
        models.resolve("player", "", loads=True)
    wait_for(lambda: "player was asked for and cannot be loaded" in caplog.text)
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
    write_player(repository, version=3, speed=3)  # which it has no option for
    models.reload()
    assert models.resolve("player", "").version == "2"
    assert "unknown option" in reason(models, 3)
    models.unload("player")
    with pytest.raises(Unavailable):
        models.resolve("player", "")
    with pytest.raises(Unavailable):
        old.batcher.submit(Call(BOARD))
    models.close()


def test_processes_of_one_service_hash_a_file_once(repository: Path, tmp_path: Path) -> None:
    folder = write_player(repository)
    player = read_card(folder).player
    assert player is not None
    first, second = PlayerFiles(tmp_path / "digests"), PlayerFiles(tmp_path / "digests")
    assert first.map(folder, player)["table"].tobytes() == TABLE
    (known,) = (file for file in (tmp_path / "digests").iterdir() if file.suffix != ".lock")
    known.write_text("0" * 64)
    with pytest.raises(ModelError, match="does not match the card"):
        second.map(folder, player)  # it believes the first
    os.utime(folder / "table.bin", ns=(1, 1))  # which is a new state of the file
    assert second.map(folder, player)["table"].tobytes() == TABLE
