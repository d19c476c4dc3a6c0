"""`octofold analyse` shows where games are lost, with and without a judge's opinion of each move."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from octofold_game.replays import read_replays
from octofold_game.trajectories import Trajectory
from support.commands import octofold
from support.json_files import read_json


@pytest.fixture
def folder(games: Path, tmp_path: Path) -> Path:
    """A writable copy of the result folder of 40 greedy games."""
    return Path(shutil.copytree(games, tmp_path / "greedy"))


def analyse(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return octofold("analyse", *arguments)


def test_analyse_without_a_judge_shows_where_games_end_and_how_to_name_a_judge(folder: Path) -> None:
    done = analyse(folder, "--last", "10")
    assert done.returncode == 0, done
    assert done.stdout.startswith("**greedy version 1: the last 10 moves of 40 games, seed 7**\n")
    assert "agreement" not in done.stdout
    assert "--judge" in done.stderr
    analysis = read_json(folder / "analysis.json")
    assert (analysis["schema"], analysis["judge"], analysis["judged"]) == (1, None, 0)
    episodes = list(read_replays(folder / "games.replay"))
    largest = sorted(episode.largest_tile for episode in episodes)
    assert [ending["largest_tile"] for ending in analysis["endings"]] == sorted(set(largest))
    assert all(ending["games"] == sum(ending["quarters"]) for ending in analysis["endings"])
    assert sum(ending["games"] for ending in analysis["endings"]) == 40
    assert (folder / "analysis.md").read_text().startswith("**greedy version 1")
    conditions = folder / "conditions.json"
    conditions.write_text(conditions.read_text().replace("{", '{"games": 50, ', 1))
    assert "Only 40 of 50 games are finished." in analyse(folder).stdout


def test_a_judge_finds_the_costliest_moves_and_the_report_links_to_them(folder: Path) -> None:
    done = analyse(folder, "--judge", "expectimax:depth=2", "--costliest", "2", "--last", "12")
    assert done.returncode == 0, done
    analysis = read_json(folder / "analysis.json")
    assert analysis["judged"] == analysis["positions"] == 40 * 12
    assert analysis["judge"]["unit"] == "heuristic points"
    shown = re.findall(r"^http://127\.0\.0\.1:8000/#replay/(\S+)/(\d+)/(\d+)$", done.stdout, re.MULTILINE)
    walks = {episode.game: Trajectory.of(episode) for episode in read_replays(folder / "games.replay")}
    for (where, game, move), costly in zip(shown, analysis["costliest"], strict=False):
        assert where == folder.name
        assert (int(game), int(move)) == (costly["game"], costly["move"])
        assert walks[int(game)].boards[int(move)].tolist() == costly["board"]
        assert walks[int(game)].moves[int(move)] == costly["made"] != costly["better"]
        values = costly["values"]
        assert costly["cost"] == pytest.approx(values[costly["better"]] - values[costly["made"]])
    assert len(shown) == 2
    assert f"To open these links, run octofold-serve with --results {folder.parent}." in done.stdout
    text = (Path(__file__).parents[3] / "docs" / "results.md").read_text()
    rows = re.findall("^[|] (`.*?`) [|]", text.partition("## `analysis.json`")[2], re.MULTILINE)
    assert {field for row in rows for field in re.findall("`(.*?)`", row)} == analysis.keys()


def test_a_served_model_judges_by_its_probabilities(folder: Path, target: str) -> None:
    done = analyse(folder, "--judge", "small", "--target", target, "--last", "3")
    assert done.returncode == 0, done
    analysis = read_json(folder / "analysis.json")
    assert analysis["judge"]["name"] == "small version 1"
    assert analysis["judge"]["unit"] == "probability"
    assert 0 < analysis["all"]["cost"] < 1


def test_an_analysis_without_a_judge_does_not_replace_a_judged_one(folder: Path) -> None:
    judged = analyse(folder, "--judge", "montecarlo:runs=1", "--last", "3")
    assert judged.returncode == 0, judged
    names = ("analysis.json", "analysis.md")
    before = [(folder / name).read_bytes() for name in names]
    plain = analyse(folder)
    assert plain.returncode == 0, plain
    assert "moves to the end" in plain.stdout
    assert "result: " not in plain.stdout
    assert plain.stderr == (
        f"{folder / 'analysis.json'} is unchanged: it contains an analysis of the last 3 moves, judged by "
        "montecarlo:runs=1. To replace it, use --judge.\n"
    )
    assert [(folder / name).read_bytes() for name in names] == before
    assert analyse(folder, "--judge", "montecarlo:runs=1", "--last", "2").returncode == 0
    assert read_json(folder / "analysis.json")["last_moves"] == 2
