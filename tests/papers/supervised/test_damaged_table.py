"""A damaged table: each file is named, and the other networks and stages stay in the report."""

import json
import math
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from octofold_papers import cli
from octofold_papers.supervised.shards import ShuffledMoves
from octofold_training.errors import TrainingError
from support.published_tables import TINY, convert_games, table_of

Damage = Callable[[Path], Path]
"""Does damage to a network's files, and returns the file."""


def _damage_games(network: Path) -> Path:
    games = network / "2000" / "games-8.jsonl"
    games.write_text("rubbish\n")
    return games


def _change_training(network: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    description = network / "2000" / "checkpoint.json"
    content = json.loads(description.read_text())
    change(content["training"])
    description.write_text(json.dumps(content))
    return description


def _drop_hours(network: Path) -> Path:
    return _change_training(network, lambda training: training.pop("hours"))


def _write_nan_hours(network: Path) -> Path:
    return _change_training(network, lambda training: training.update(hours=math.nan))


def _write_hours_as_text(network: Path) -> Path:
    return _change_training(network, lambda training: training.update(hours="5"))


def _replace_history(network: Path) -> Path:
    history = network / "run" / "history.jsonl"
    history.write_text(history.read_text().replace('"accuracy"', '"kl"'))
    return history


def _make_folder_of_games(network: Path) -> Path:
    games = network / "2000" / "games-1.jsonl"
    games.unlink()
    games.mkdir()
    return games


@pytest.fixture(scope="module")
def two_networks(moves: ShuffledMoves, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a table of two networks that nothing stopped."""
    folder = tmp_path_factory.mktemp("two")
    table_of(moves, folder, games=1, positions=2000).run()
    return folder


@pytest.mark.parametrize(
    ("damage", "stages"),
    [
        (_damage_games, ["MLP4 at 2,000 positions"]),
        (_drop_hours, ["MLP4 at 2,000 positions"]),
        (_write_nan_hours, ["MLP4 at 2,000 positions"]),
        (_write_hours_as_text, ["MLP4 at 2,000 positions"]),
        (_make_folder_of_games, ["MLP4 at 2,000 positions"]),
        (_replace_history, ["MLP4 at 1,000 positions", "MLP4 at 2,000 positions"]),
    ],
)
def test_a_damaged_file_is_named_and_only_its_stages_are_left_out_of_the_report(
    moves: ShuffledMoves, two_networks: Path, tmp_path: Path, damage: Damage, stages: list[str]
) -> None:
    folder = tmp_path / "table"
    shutil.copytree(two_networks, folder)
    whole = table_of(moves, folder, games=1, positions=2000).results()
    damaged = damage(folder / "MLP4")
    table = table_of(moves, folder, TINY[1:], games=1, positions=2000)
    table.run()
    results = table.results()
    assert results == [each for each in whole if f"{each.row} at {each.positions:,} positions" not in stages]
    assert {each.row for each in results} >= {"cnn-5"}
    assert list(table.failed) == stages
    for reason in table.failed.values():
        assert reason.startswith(str(damaged))
        assert reason.endswith("; the report leaves out this stage")
        assert "\n" not in reason


def test_the_command_fails_where_the_report_leaves_out_a_stage(
    moves: ShuffledMoves, two_networks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "table"
    shutil.copytree(two_networks, folder)
    damaged = _damage_games(folder / "MLP4")
    command = ["table", "--moves", str(moves.folder), "--out", str(folder), "--device", "cpu"]
    assert (
        cli.main([*command, "--positions", "2000", "--games", "1", "--rows", "cnn-2", "--minutes", "0"]) == 1
    )
    (line,) = [line for line in capsys.readouterr().err.splitlines() if str(damaged) in line]
    assert line.endswith("; the report leaves out this stage")
    assert "| cnn-5 | " in (folder / "table.md").read_text()


def test_the_command_fails_where_a_network_cannot_learn(
    moves: ShuffledMoves, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "MLP4").write_text("no folder")
    command = ["table", "--moves", str(moves.folder), "--out", str(tmp_path), "--device", "cpu"]
    assert cli.main([*command, "--positions", "1", "--games", "1", "--rows", "MLP4"]) == 1
    assert f"MLP4: {tmp_path / 'MLP4'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stage", "told"), [(2000, ["MLP4 at 2,000 positions"]), (1000, ["MLP4", "MLP4 at 1,000 positions"])]
)
def test_games_that_stop_a_network_in_its_last_stage_are_told_of_once(
    moves: ShuffledMoves, two_networks: Path, tmp_path: Path, stage: int, told: list[str]
) -> None:
    folder = tmp_path / "table"
    shutil.copytree(two_networks, folder)
    if stage == 1000:
        shutil.rmtree(folder / "MLP4" / "2000")
    (folder / "MLP4" / str(stage) / "games-8.jsonl").write_text("rubbish\n")
    table = table_of(moves, folder, games=1, positions=2000)
    table.run()
    table.results()
    assert list(table.failed) == told


def test_a_full_disk_is_told_with_the_file_of_the_games(
    moves: ShuffledMoves,
    two_networks: Path,
    tmp_path: Path,
    full_disk: Callable[[int], AbstractContextManager[None]],
) -> None:
    folder = tmp_path / "table"
    shutil.copytree(two_networks, folder)
    games = folder / "MLP4" / "1000" / "games-8.jsonl"
    table = table_of(moves, folder, TINY[:1], games=2, positions=2000)
    with full_disk(games.stat().st_size + 10), pytest.raises(OSError, match="too large") as failure:
        table.run()
    assert str(failure.value.filename) == str(games)


def test_other_moves_and_damaged_games_are_refused(moves: ShuffledMoves, tmp_path: Path) -> None:
    table_of(moves, tmp_path / "table", TINY[:1], games=1, positions=1).run()
    games = tmp_path / "table" / "MLP4" / "1" / "games-8.jsonl"
    kept = games.read_text()
    games.write_text('{"game": 0, "sco')  # cut off: played again
    table_of(moves, tmp_path / "table", TINY[:1], games=1, positions=1).run()
    assert games.read_text() == kept
    games.write_text("rubbish\n")
    table = table_of(moves, tmp_path / "table", TINY[:2], games=1, positions=1)
    table.run()
    assert re.search(r"games-8\.jsonl is damaged .* delete it", table.failed["MLP4"])
    assert TINY[1].name in {each.row for each in table.results()}
    (tmp_path / "other").mkdir()
    convert_games(tmp_path / "other", seed=4)
    with pytest.raises(TrainingError, match="figures of other moves"):
        table_of(ShuffledMoves(tmp_path / "other" / "converted"), tmp_path / "table")
