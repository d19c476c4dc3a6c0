"""`octofold report` computes figures from replays, writes files, and refuses wrong folders."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from octofold_game.replays import ReplayWriter, read_replays
from support.commands import failure, octofold
from support.json_files import read_json
from support.shipped import newest

PNG = b"\x89PNG\r\n\x1a\n"


def report(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return octofold("report", *arguments)


@pytest.fixture
def folder(games: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(games, tmp_path / "greedy"))


def test_luck_is_removed_with_the_named_values(folder: Path) -> None:
    values = f"ntuple:{newest('ntuple')}"
    done = report(folder, "--luck", values, "--html")
    assert done.returncode == 0, done
    result = read_json(folder / "result.json")
    found = result["without_luck"]
    assert found["values"] == values
    low, high = found["interval"]
    assert low < found["average"] < high
    told = f"| average without luck | {found['average']:,.0f} | {low:,.0f} to {high:,.0f} |"
    assert told in re.sub(" +", " ", done.stdout)
    page = (folder / "report.html").read_text()
    assert "<h2>Luck</h2>" in page
    assert "Luckiest and unluckiest" in page
    assert report(folder, "--luck", "none").returncode == 0
    assert read_json(folder / "result.json") == result | {"without_luck": None}
    assert failure("report", folder, "--luck", "expectimax", code=2) == (
        "--luck requires a judge whose values are in points; the unit of expectimax is heuristic points"
    )


def test_a_report_from_replays_alone_has_every_figure_of_the_games(folder: Path) -> None:
    done = report(folder)
    assert done.returncode == 0, done
    assert done.stdout.startswith("**greedy version 1: 40 games, seed 7**\n")
    result = read_json(folder / "result.json")
    scores = {episode.game: episode.score for episode in read_replays(folder / "games.replay")}
    assert {row["game"]: row["score"] for row in result["scores"]} == scores
    statistics = result["statistics"]
    values = np.array(list(scores.values()))
    assert statistics["average"] == pytest.approx(values.mean())
    assert statistics["average_standard_error"] == pytest.approx(values.std(ddof=1) / 40**0.5)
    low, high = statistics["average_interval"]
    assert low < statistics["average"] < high
    assert [row["tile"] for row in statistics["reached"]] == [128 << step for step in range(11)]
    assert sum(row["games"] for row in statistics["largest_tiles"]) == 40
    assert (result["schema"], result["run"], result["card"]) == (4, None, None)


def test_the_documentation_lists_exactly_the_fields(folder: Path) -> None:
    report(folder)
    result = read_json(folder / "result.json")
    text = (Path(__file__).parents[3] / "docs" / "results.md").read_text()
    described = {
        name.strip("` ")
        for line in text.partition("## `result.json`")[2].partition("\n## ")[0].splitlines()
        if line.startswith("| `")
        for name in line.split("|")[1].split(",")
    }
    run = {"moves", "seconds", "moves_per_second", "requests", "queue_us", "inference_us"}
    assert described == {*result, *result["statistics"], *run}


def test_requested_pictures_are_drawn_and_named_in_the_markdown(folder: Path) -> None:
    done = report(folder, "--plots")
    assert done.returncode == 0, done
    pictures = sorted(path.name for path in folder.glob("*.png"))
    assert pictures == ["score-distribution.png", "tiles-reached.png"]
    text = (folder / "report.md").read_text()
    for name in pictures:
        content = (folder / name).read_bytes()
        assert content.startswith(PNG)
        assert int.from_bytes(content[16:20]) == 8 * 150  # pixels: 8 inches at 150 dots per inch
        assert f"]({name})" in text
        assert f"picture: {folder / name}\n" in done.stdout
    assert not list(folder.glob("*.partial"))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ('{"schema": 5}', "schema 5, but this program reads schema 4"),
        ("[]", "is not the result of an evaluation"),
        ("{", "is damaged: it is not JSON"),
        ('{"schema": 2, "run": 5, "card": null}', "is damaged"),
    ],
)
def test_an_unreadable_result_is_named_and_not_changed(folder: Path, result: str, message: str) -> None:
    (folder / "result.json").write_text(result)
    line = failure("report", folder)
    assert line.startswith(str(folder / "result.json"))
    assert message in line
    assert (folder / "result.json").read_text() == result


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "game 0 of seed 7 occurs twice"),
        ({"game": 40, "seed": 8}, "game 40 of seed 8 is in a folder of seed 7"),
        ({"game": 40, "moves": b""}, "game 40 of seed 7 has no moves"),
    ],
)
@pytest.mark.parametrize("command", ["report", "analyse"])
def test_games_that_do_not_belong_to_an_evaluation_are_named_and_not_counted(
    folder: Path, command: str, change: dict[str, Any], said: str
) -> None:
    first = next(episode for episode in read_replays(folder / "games.replay") if episode.game == 0)
    with ReplayWriter(folder / "games.replay") as writer:
        writer.append(replace(first, **change))
    done = octofold(command, folder)
    assert done.returncode == 1
    assert done.stderr == f"octofold: {folder / 'games.replay'}: {said}\n"
    assert not (folder / "result.json").exists()
