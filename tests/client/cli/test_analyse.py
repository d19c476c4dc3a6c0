"""`octofold analyse`: where games are lost, by the records alone and with a judge's opinion of each move."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client.analysis.endings import Analysis, Ending, Verdicts
from octofold_client.analysis.judging import judge_positions
from octofold_client.analysis.trajectories import Walk, last_positions
from octofold_client.contenders.judges import Judge, Opinion
from octofold_client.terminal.interrupts import DeferredInterrupts
from octofold_game.replays import read_replays
from octofold_game.rules import legal_moves

OCTOFOLD = Path(sys.executable).with_name("octofold")
Ask = Callable[[NDArray[np.uint8]], Opinion]


@pytest.fixture
def folder(games: Path, tmp_path: Path) -> Path:
    """A copy of the 40 greedy games, to be written into."""
    return Path(shutil.copytree(games, tmp_path / "greedy"))


def analyse(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([OCTOFOLD, "analyse", *arguments], capture_output=True, text=True, timeout=100)


def analysis_of(folder: Path) -> dict[str, Any]:
    analysis: dict[str, Any] = json.loads((folder / "analysis.json").read_text())
    return analysis


def first_legal(boards: NDArray[np.uint8]) -> Opinion:
    """Chooses the first legal move, which is worth as many points as there are others behind it."""
    values = np.tile(np.array([3.0, 2.0, 1.0, 0.0]), (len(boards), 1))
    return Opinion(legal_moves(boards).argmax(axis=1).astype(np.int8), values)


def judge(ask: Ask = first_legal, largest_exponent: int = 15, boards_at_once: int = 7) -> Judge:
    return Judge("first", None, "points", largest_exponent, boards_at_once, ask)


def test_the_last_positions_are_those_of_the_walks(games: Path) -> None:
    episodes = list(read_replays(games / "games.replay"))
    positions = last_positions(episodes, 9)
    assert len(positions) == 9 * len(episodes)
    for episode in episodes:
        rows = positions.games == episode.game
        walk = Walk.of(episode)
        assert positions.numbers[rows].tolist() == list(range(len(episode) - 9, len(episode)))
        assert positions.left[rows].tolist() == list(range(9, 0, -1))
        assert (positions.boards[rows] == walk.boards[-10:-1]).all()
        assert (positions.made[rows] == walk.moves[-9:]).all()


def test_of_a_game_shorter_than_that_all_positions_count(games: Path) -> None:
    episodes = list(read_replays(games / "games.replay"))
    positions = last_positions(episodes, 10**6)
    assert len(positions) == sum(map(len, episodes))
    assert np.count_nonzero(positions.numbers == 0) == np.count_nonzero(positions.left == 1) == len(episodes)


def test_agreement_and_cost_are_those_of_the_definition(games: Path) -> None:
    episodes = list(read_replays(games / "games.replay"))
    positions = last_positions(episodes, 20)
    verdicts = Verdicts.none(len(positions))
    judge_positions(judge(), positions, verdicts)
    choices = legal_moves(positions.boards).argmax(axis=1)
    costs = positions.made - choices  # a point less for each move further back
    analysis = Analysis([Ending.of(episode) for episode in episodes], positions, verdicts)
    whole = analysis.whole()
    assert whole.judged == len(positions)
    assert whole.agreement == np.mean(choices == positions.made)
    assert whole.cost == pytest.approx(costs.mean())
    average, interval = analysis.cost_of_a_game() or (0.0, None)
    assert average == pytest.approx(costs.sum() / len(episodes))
    assert interval is not None
    assert interval[0] < average < interval[1]
    for groups in (analysis.by_stage(), analysis.by_distance()):
        assert sum(group.positions for group in groups) == len(positions)
        assert sum(group.cost_share or 0.0 for group in groups) == pytest.approx(1.0)
    assert [group.label for group in analysis.by_distance()] == [
        "1",
        "2 to 3",
        "4 to 7",
        "8 to 15",
        "16 to 20",
    ]
    costliest = list(analysis.costliest(len(positions)))
    assert [move.cost for move in costliest] == sorted(costs[costs > 0].tolist(), reverse=True)


def test_ctrl_c_keeps_what_was_judged(games: Path) -> None:
    positions = last_positions(list(read_replays(games / "games.replay")), 5)
    verdicts = Verdicts.none(len(positions))
    calls: list[int] = []

    def ask(boards: NDArray[np.uint8]) -> Opinion:
        calls.append(len(boards))
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return first_legal(boards)

    with pytest.raises(KeyboardInterrupt), DeferredInterrupts() as interrupts:
        judge_positions(judge(ask), positions, verdicts, before_each=interrupts.check)
    assert np.count_nonzero(verdicts.judged) == sum(calls) == 21
    analysis = Analysis([], positions, verdicts)
    assert analysis.whole().judged == 21
    assert analysis.cost_of_a_game() is not None  # of the four games that are done


def test_boards_beyond_the_judge_are_not_put_before_it(games: Path) -> None:
    positions = last_positions(list(read_replays(games / "games.replay")), 5)
    verdicts = Verdicts.none(len(positions))
    largest = positions.boards.max(axis=1)
    judge_positions(judge(largest_exponent=7), positions, verdicts)
    assert (verdicts.judged == (largest <= 7)).all()
    assert 0 < np.count_nonzero(verdicts.judged) < len(positions)


def test_without_a_judge_it_says_where_games_end_and_how_to_name_one(folder: Path) -> None:
    done = analyse(folder, "--last", "10")
    assert done.returncode == 0, done
    assert done.stdout.startswith("**greedy version 1: the last 10 moves of 40 games, seed 7**\n")
    assert "agreement" not in done.stdout
    assert "--player or --model" in done.stderr
    analysis = analysis_of(folder)
    assert (analysis["schema"], analysis["judge"], analysis["judged"]) == (1, None, 0)
    episodes = list(read_replays(folder / "games.replay"))
    largest = sorted(episode.largest_tile for episode in episodes)
    assert [ending["largest_tile"] for ending in analysis["endings"]] == sorted(set(largest))
    assert all(ending["games"] == sum(ending["quarters"]) for ending in analysis["endings"])
    assert sum(ending["games"] for ending in analysis["endings"]) == 40
    assert (folder / "analysis.md").read_text().startswith("**greedy version 1")


def test_a_stronger_player_names_the_costliest_moves_and_where_to_see_them(folder: Path) -> None:
    done = analyse(folder, "--player", "expectimax:depth=2", "--costliest", "2", "--plots")
    assert done.returncode == 0, done
    analysis = analysis_of(folder)
    assert analysis["judged"] == analysis["positions"] == 40 * 50
    assert analysis["judge"]["unit"] == "heuristic points"
    shown = re.findall(r"^octofold replay (\S+) --game (\d+) --move (\d+)$", done.stdout, re.MULTILINE)
    walks = {episode.game: Walk.of(episode) for episode in read_replays(folder / "games.replay")}
    for (where, game, move), costly in zip(shown, analysis["costliest"], strict=False):
        assert where == str(folder)
        assert (int(game), int(move)) == (costly["game"], costly["move"])
        assert walks[int(game)].boards[int(move)].tolist() == costly["board"]
        assert walks[int(game)].moves[int(move)] == costly["made"] != costly["better"]
        values = costly["values"]
        assert costly["cost"] == pytest.approx(values[costly["better"]] - values[costly["made"]])
    assert len(shown) == 2
    assert (folder / "where-games-are-lost.png").read_bytes().startswith(b"\x89PNG")
    assert "(where-games-are-lost.png)" in (folder / "analysis.md").read_text()
    text = (Path(__file__).parents[3] / "docs" / "results.md").read_text()
    rows = re.findall("^[|] (`.*?`) [|]", text.partition("## `analysis.json`")[2], re.MULTILINE)
    assert {field for row in rows for field in re.findall("`(.*?)`", row)} == analysis.keys()


def test_a_served_model_judges_by_its_probabilities(folder: Path, target: str) -> None:
    done = analyse(folder, "--model", "small", "--target", target, "--last", "3")
    assert done.returncode == 0, done
    analysis = analysis_of(folder)
    assert analysis["judge"]["name"] == "small version 1"
    assert analysis["judge"]["unit"] == "probability"
    assert 0 < analysis["all"]["cost"] < 1


def test_what_cannot_be_analysed_or_judge_is_named_and_nothing_is_written(
    folder: Path, tmp_path: Path
) -> None:
    before = sorted(folder.iterdir())
    assert analyse(tmp_path / "none").stderr == f"octofold: there is no {tmp_path / 'none'}\n"
    assert analyse(folder, "--player", "random").stderr == (
        "octofold: random cannot judge: it does not say what moves are worth\n"
    )
    assert "did you mean minimax?" in analyse(folder, "--player", "minmax").stderr
    (folder / "games.replay").write_bytes((folder / "games.replay").read_bytes()[:-1])
    assert "ends within game" in analyse(folder).stderr
    assert sorted(folder.iterdir()) == before


def test_an_analysis_without_a_judge_does_not_replace_a_judged_one(folder: Path) -> None:
    judged = analyse(folder, "--player", "montecarlo:runs=1", "--last", "3", "--plots")
    assert judged.returncode == 0, judged
    names = ("analysis.json", "analysis.md", "where-games-are-lost.png")
    before = [(folder / name).read_bytes() for name in names]
    plain = analyse(folder, "--plots")
    assert plain.returncode == 0, plain
    assert "moves to the end" in plain.stdout
    assert "written: " not in plain.stdout
    assert plain.stderr == (
        f"{folder / 'analysis.json'} keeps the analysis of the last 3 moves by montecarlo:runs=1; "
        "name a judge to replace it.\n"
    )
    assert [(folder / name).read_bytes() for name in names] == before
    assert analyse(folder, "--player", "montecarlo:runs=1", "--last", "2").returncode == 0
    assert analysis_of(folder)["last_moves"] == 2
