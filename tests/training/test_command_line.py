"""`octofold-train`: its help needs no extra, and wrong usage ends in one line that says what to do."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from octofold_game.commands.subcommands import Command
from octofold_game.episodes import IllegalMoveError
from octofold_players.local_player import OptionError
from octofold_training.cli import TrimFlags, main
from octofold_training.errors import TrainingError
from octofold_training.learners import ntuple_td
from octofold_training.learners.ntuple_td import NTupleLearner, NTupleOptions, NTupleProgress
from octofold_training.shared_commands import run_program
from support.terminals import OCTOFOLD, Screen

COMMANDS = {
    "octofold-train": ["teacher", "student", "endgame", "trim"],
    "octofold-papers": ["imitation", "dqn", "lazyzero", "moves", "table", "tune", "window"],
}
ENDLESS = {
    "teacher": "[ntuple]\ntuples = [[0, 1, 2, 3]]\nfirst_tuples = 1\nmoves = 1e9\nthreads = 1\n",
    "dqn": '[network]\nkind = "q_network"\nform = "simple"\nvalue_scale = 1.0\n[dqn]\nepisodes = 1000000\n',
}
"""A long recipe for each command."""
WITHOUT_EXTRAS = """
import sys
for name in ("torch", "numba", "matplotlib"):
    sys.modules[name] = None  # importing it raises ModuleNotFoundError
import octofold_papers.cli, octofold_training.cli
program = {"octofold-train": octofold_training.cli, "octofold-papers": octofold_papers.cli}[sys.argv[1]]
sys.exit(program.main(sys.argv[2:]))
"""


def _without_extras(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_EXTRAS, program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "command",
    [[program, *name] for program, names in COMMANDS.items() for name in ([], *([name] for name in names))],
    ids=" ".join,
)
def test_help_works_without_torch_and_numba(command: list[str]) -> None:
    helped = _without_extras(*command, "--help")
    assert helped.returncode == 0
    assert helped.stdout.startswith(f"usage: {' '.join(command)}")
    assert helped.stderr == ""
    assert "(default: None)" not in helped.stdout
    assert "(default: inf)" not in helped.stdout


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (["octofold-train", "teacher", "nowhere.toml"], "training"),
        (["octofold-train", "endgame"], "players"),
        (["octofold-papers", "dqn", "nowhere.toml"], "training"),
    ],
)
def test_without_an_extra_the_command_that_installs_it_is_named(
    command: list[str], extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = _without_extras(*command)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.partition(" is not installed; run ")[2].endswith(f"[{extra}]'")


def test_logs_are_shuffled_without_torch_and_bad_lines_are_named(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("r 13 5 5 2 14 8 3 1 12 9 1 0 11 10 0 1 : 3 15\nr 1 2 3\n")
    words = ("octofold-papers", "moves", str(tmp_path / "log.txt"), "--out", str(tmp_path / "out"))
    shuffled = _without_extras(*words)
    assert shuffled.returncode == 0, shuffled.stderr
    assert f"skipped: {tmp_path / 'log.txt'}:2: it must have 20 parts, got 4" in shuffled.stderr
    assert shuffled.stdout.splitlines() == [
        f"{tmp_path / 'out'}: 1 moves (log files: 1; bad lines skipped: 1)",
        "moves by the meaning of their last field: new tile 0, last placed tile 0, either 1, neither 0",
    ]
    again = _without_extras(*words)
    assert (again.returncode, "already exists" in again.stderr) == (1, True)


def test_waiting_threads_do_not_spin(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    command = [sys.executable, "-m", "octofold_training.cli", "student", "nowhere.toml"]
    shown = environment | {"OMP_DISPLAY_ENV": "true"}  # OpenMP prints this when it is loaded
    done = subprocess.run(command, env=shown, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert re.search("OMP_WAIT_POLICY ?= ?'PASSIVE'", done.stderr)


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "octofold-train: interrupted; nothing was written"),
        (
            MemoryError("Unable to allocate 7 TiB"),
            1,
            "octofold-train: not enough memory (Unable to allocate 7 TiB)",
        ),
        (TrainingError("a.toml: has no rate"), 1, "octofold-train: a.toml: has no rate"),
        (OptionError("depth must be at least 1"), 1, "octofold-train: depth must be at least 1"),
    ],
)
def test_errors_before_the_recipe_is_read_are_one_line(
    raised: BaseException,
    code: int,
    line: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _command_that_raises(raised) == code
    assert capsys.readouterr().err.strip() == line


def test_a_lack_of_memory_in_torch_gives_a_one_line_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.empty(2**50)
    for error in (refused.value, torch.OutOfMemoryError("no more is free")):
        assert _command_that_raises(error) == 1
        assert capsys.readouterr().err.splitlines() == [f"octofold-train: not enough memory ({error})"]


@pytest.mark.parametrize(
    "bug",
    [RuntimeError("shapes differ"), IllegalMoveError("up", 0)],
)
def test_a_bug_shows_its_traceback(bug: Exception) -> None:
    with pytest.raises(type(bug)) as raised:
        _command_that_raises(bug)
    assert raised.value is bug


def _command_that_raises(raised: BaseException) -> int:
    def run(_: object) -> None:
        raise raised

    command = Command("fail", "", "", TrimFlags, run)
    return run_program("octofold-train", "", [command], {}, ["fail"])


def test_a_report_without_whole_games_has_no_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(options: NTupleOptions, _: Path, report: Any, __: float) -> NTupleLearner:
        report(learner := NTupleLearner(options), NTupleProgress(1, 0, 9, 1.0, None, 0, 9))
        return learner

    monkeypatch.setattr(ntuple_td, "train", train)
    (tmp_path / "small.toml").write_text(ENDLESS["teacher"])
    assert main(["teacher", str(tmp_path / "small.toml"), "--state", str(tmp_path / "state")]) == 0
    assert "episodes  0%\n" in capsys.readouterr().err


def test_a_run_draws_a_progress_bar_on_a_terminal_and_ctrl_c_keeps_the_run(tmp_path: Path) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(ENDLESS["teacher"])
    state = tmp_path / "state"
    screen = Screen("teacher", recipe, "--state", state, program=OCTOFOLD.with_name("octofold-train"))
    try:
        screen.shows(r"━ \d+% [\d.]+ \w+ left\s+[\d.]+ min .*of 1,000.00M moves .*/s .*average score [\d,]+")
        screen.interrupt()
        screen.shows(r"stopping; saving the run in ")
        screen.shows(r"the same command continues")
        screen.ends(130)
    finally:
        screen.close()
    assert state.is_dir()


def test_a_run_whose_terminal_closes_is_saved(tmp_path: Path) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(ENDLESS["dqn"])
    words = ["--state", str(tmp_path / "state"), "--checkpoint", str(tmp_path / "net"), "--device", "cpu"]
    screen = Screen("dqn", recipe, *words, program=OCTOFOLD.with_name("octofold-papers"))
    try:
        screen.shows(r"━ \d+% ")
        assert screen.hang_up() == 130
    finally:
        screen.close()
    assert (tmp_path / "state" / "state.pt").exists()
