"""The first steps of a new user: a model repository, `octofold play`, a table, replays, a result."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from octofold_game.referee import verify
from octofold_game.replays import ReplayWriter, read_replays
from support.commands import octofold
from support.terminals import Screen

OCTOFOLD = str(Path(sys.executable).with_name("octofold"))
SECONDS = 60


def test_play_serves_a_model_plays_full_games_and_reports_on_them(repository: Path, tmp_path: Path) -> None:
    command = [OCTOFOLD, "play", "--games", "3", "--models", str(repository)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done
    assert "**small version 1: 3 games, seed 0**" in done.stdout
    assert "| reached 128 " in done.stdout
    assert "| reached 65536 " not in done.stdout
    folder = tmp_path / "results" / "play-small-v1-seed0"
    assert done.stdout.splitlines()[-3:] == [
        f"replays: {(folder / 'games.replay').relative_to(tmp_path)}",
        f"result:  {(folder / 'result.json').relative_to(tmp_path)}",
        f"report:  {(folder / 'report.md').relative_to(tmp_path)}",
    ]
    result = json.loads((folder / "result.json").read_text())
    episodes = {episode.game: episode for episode in read_replays(folder / "games.replay")}
    assert sorted(episodes) == [0, 1, 2]
    for row in result["scores"]:
        verify(episodes[row["game"]])
        assert row["score"] == episodes[row["game"]].score


def test_play_does_not_change_a_finished_result_or_one_that_another_program_writes(
    repository: Path, tmp_path: Path
) -> None:
    command = ("play", "--games", "1", "--models", repository)
    first = octofold(*command, folder=tmp_path)
    assert first.returncode == 0, first
    finished, used = (tmp_path / "results" / f"play-small-v1-seed0{suffix}" for suffix in ("", "-2"))
    before = (finished / "games.replay").read_bytes()
    used.mkdir()
    with ReplayWriter(used / "games.replay"):
        second = octofold(*command, folder=tmp_path)
    assert second.returncode == 0, second
    assert "earlier run" not in first.stdout + second.stdout
    assert (finished / "games.replay").read_bytes() == before
    assert [file.name for file in used.iterdir()] == ["games.replay"]
    folders = [finished.name, used.name, "play-small-v1-seed0-3"]
    assert sorted(folder.name for folder in (tmp_path / "results").iterdir()) == folders
    assert (tmp_path / "results" / folders[-1] / "result.json").exists()


def test_play_shows_why_a_server_without_its_extra_cannot_start(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "onnxruntime.py").write_text("raise ModuleNotFoundError(name=__name__)")
    done = octofold("play", "--models", repository, folder=tmp_path, packages=tmp_path)
    assert done.returncode == 1
    assert "octofold: the server ended with exit code" in done.stderr
    assert "[server]" in done.stderr
    assert "Traceback" not in done.stderr


def test_play_shows_progress_on_a_terminal(repository: Path, tmp_path: Path) -> None:
    screen = Screen("play", "--games", "3", "--models", repository, "--out", tmp_path / "out", columns=100)
    try:
        screen.shows("games")
        screen.shows("moves/s")
        screen.shows("average score")
        screen.ends()
    finally:
        screen.close()


@pytest.mark.parametrize(
    ("package", "other"), [("octofold_client", "octofold_server"), ("octofold_server", "octofold_client")]
)
def test_client_and_server_import_neither_torch_nor_each_other(package: str, other: str) -> None:
    program = f"""
import importlib, pkgutil, sys
import {package}
for module in pkgutil.walk_packages({package}.__path__, "{package}."):
    importlib.import_module(module.name)
print(*{{"torch", "numba", "onnx", "octofold_training", "{other}"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
