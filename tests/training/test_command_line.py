"""`octofold-train`: its help needs no extra, and wrong usage ends in one line that says what to do."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from octofold_game.episodes import IllegalMoveError
from octofold_game.play_logs.moves import LogError
from octofold_players.compiled.table_files import TableFileError
from octofold_players.local_player import OptionError
from octofold_training import cli
from octofold_training.errors import EndedElsewhere, TrainingError
from support.terminals import OCTOFOLD, Screen

OCTOFOLD_TRAIN = OCTOFOLD.with_name("octofold-train")
COMMANDS = ["teacher", "student", "imitation", "dqn", "lazyzero"]
COMMANDS += ["moves", "endgame", "trim", "tune", "table"]
ENDLESS = {
    "teacher": "[ntuple]\ntuples = [[0, 1, 2, 3]]\nfirst_tuples = 1\nmoves = 1e9\nthreads = 1\n",
    "dqn": '[network]\nkind = "q_network"\nform = "simple"\nvalue_scale = 1.0\n[dqn]\nepisodes = 1000000\n',
}
"""Recipes by the command that they are for."""
WITHOUT_EXTRAS = """
import sys
for name in ("torch", "numba", "matplotlib"):
    sys.modules[name] = None  # importing it raises ModuleNotFoundError
from octofold_training.cli import main
sys.exit(main(sys.argv[1:]))
"""


def _without_extras(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_EXTRAS, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=str)
def test_help_works_without_torch_and_numba(command: list[str]) -> None:
    helped = _without_extras(*command, "--help")
    assert helped.returncode == 0
    assert helped.stdout.startswith(f"usage: octofold-train {' '.join(command)}".rstrip())
    assert helped.stderr == ""
    assert "(default: None)" not in helped.stdout
    assert "(default: inf)" not in helped.stdout


def test_octofold_train_tells_the_version_of_the_package() -> None:
    assert _without_extras("--version").stdout == f"octofold-train {version('octofold')}\n"


@pytest.mark.parametrize(
    ("command", "extra"), [(["teacher", "nowhere.toml"], "training"), (["endgame"], "players")]
)
def test_without_an_extra_the_command_that_installs_it_is_named(
    command: list[str], extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = _without_extras(*command)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.partition(" is not installed; run ")[2].endswith(f"[{extra}]'")


@pytest.mark.parametrize("command", ["teacher", "dqn", "lazyzero", "table"])
def test_what_trains_in_one_process_refuses_several(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    what = ["--positions", "8"] if command == "table" else ["nowhere.toml"]
    assert cli.main([command, *what]) == 1
    expected = f"octofold-train: octofold-train {command} trains in one process; start it without torchrun"
    assert capsys.readouterr().err.strip() == expected


def test_logs_are_shuffled_without_torch(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("r 13 5 5 2 14 8 3 1 12 9 1 0 11 10 0 1 : 3 15\n")
    shuffled = _without_extras("moves", str(tmp_path / "log.txt"), "--out", str(tmp_path / "out"))
    assert shuffled.returncode == 0, shuffled.stderr
    assert shuffled.stdout.splitlines() == [
        f"{tmp_path / 'out'}: 1 moves (log files: 1; bad lines left out: 0)",
        "their last field can be the cell of: new tile 0, last placed tile 0, either 1, neither 0",
    ]


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "octofold-train: interrupted; nothing was written"),
        (
            MemoryError("Unable to allocate 7 TiB"),
            1,
            "octofold-train: not enough memory (Unable to allocate 7 TiB)",
        ),
        (EndedElsewhere(), 1, ""),
        (MemoryError(), 1, "octofold-train: not enough memory (no more is free)"),
        (TrainingError("a.toml: has no rate"), 1, "octofold-train: a.toml: has no rate"),
        (LogError("there is no a.txt"), 1, "octofold-train: there is no a.txt"),
        (TableFileError("a: not a network"), 1, "octofold-train: a: not a network"),
        (OptionError("depth must be at least 1"), 1, "octofold-train: depth must be at least 1"),
    ],
)
def test_what_stops_a_command_before_its_recipe_is_read_is_one_line(
    raised: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _command_that_raises(raised, monkeypatch) == code
    assert capsys.readouterr().err.strip() == line


def test_memory_that_torch_does_not_get_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.empty(2**50)
    for error in (refused.value, torch.OutOfMemoryError("no more is free")):
        assert _command_that_raises(error, monkeypatch) == 1
        assert capsys.readouterr().err.splitlines() == [f"octofold-train: not enough memory ({error})"]


@pytest.mark.parametrize(
    "bug",
    [ValueError("shapes differ"), RuntimeError("shapes differ"), KeyError("x"), IllegalMoveError("up", 0)],
)
def test_a_bug_shows_its_place(bug: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(type(bug)) as raised:
        _command_that_raises(bug, monkeypatch)
    assert raised.value is bug


def _command_that_raises(raised: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    def command(_name: str, _flags: object) -> None:
        raise raised

    monkeypatch.setattr(cli, "run", command)
    return cli.main(["teacher", "recipe.toml"])


def test_a_run_draws_a_bar_on_a_terminal_and_ctrl_c_keeps_it(tmp_path: Path) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(ENDLESS["teacher"])
    state = tmp_path / "state"
    screen = Screen("teacher", recipe, "--state", state, program=OCTOFOLD_TRAIN)
    try:
        screen.shows(r"━ \d+% [\d.]+ \w+ left\s+[\d.]+ min .*of 1,000.00M moves .*/s .*average [\d,]+")
        screen.interrupt()
        screen.shows(r"octofold-train: stopping; saving the run in ")
        screen.shows(r"the same command continues")
        screen.ends(130)
    finally:
        screen.close()
    assert state.is_dir()


@pytest.mark.parametrize(("command", "saved"), [("teacher", "learner.json"), ("dqn", "state.pt")])
def test_a_run_whose_terminal_closes_is_saved(command: str, saved: str, tmp_path: Path) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(ENDLESS[command])
    words = ["--state", str(tmp_path / "state")]
    if command != "teacher":
        words += ["--checkpoint", str(tmp_path / "net"), "--device", "cpu"]
    screen = Screen(command, recipe, *words, program=OCTOFOLD_TRAIN)
    try:
        screen.shows(r"━ \d+% ")
        assert screen.hang_up() == 130
    finally:
        screen.close()
    assert (tmp_path / "state" / saved).exists()
