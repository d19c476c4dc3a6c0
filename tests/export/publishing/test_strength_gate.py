"""`octofold-export --no-worse-than`: a version is published only if full games show that it is no worse."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from numpy.typing import NDArray
from octofold_export.cli import main
from octofold_export.publishing import strength_gate
from octofold_game.commands.signals import exit_by_signal, handling
from octofold_game.contract.model import read_card
from octofold_training import checkpoints
from octofold_training.networks.build import build
from support.shipped import newest
from support.waiting import becomes_true, wait_for

SHORT_GAMES = {"kind": "cnn", "layers": 1, "channels": 4, "exponents": 5}
"""A network whose games end with the tile 16."""


@pytest.fixture(autouse=True)
def _in_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to a temporary folder, because games are kept below the working folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def source(boards: NDArray[np.uint8], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The flags of an export."""
    folder = tmp_path_factory.mktemp("source")
    torch.manual_seed(1)
    checkpoints.save(folder / "checkpoint", build(SHORT_GAMES), SHORT_GAMES, training={})
    np.save(folder / "few.npy", np.minimum(boards[:400], 4))
    flags = ["--checkpoint", str(folder / "checkpoint"), "--boards", str(folder / "few.npy")]
    return [*flags, "--precisions", "fp32", "--name", "small"]


@pytest.fixture(scope="module")
def first(source: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with version 1 of `small`."""
    models = tmp_path_factory.mktemp("repository") / "models"
    assert main([*source, "--models", str(models)]) == 0
    return models


@pytest.fixture
def published(first: Path) -> None:
    """Copy the repository of `first` to `models`, where the command looks."""
    shutil.copytree(first, "models")


def versions() -> list[str]:
    return sorted(folder.name for folder in Path("models/small").iterdir() if folder.is_dir())


def test_the_first_version_has_no_opponent(source: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*source, "--no-worse-than", "5%"]) == 0
    assert "strength: small has no published version to play against" in capfd.readouterr().err


@pytest.mark.usefixtures("published")
def test_games_against_the_published_version_decide_whether_a_version_is_published(
    source: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*source, "--no-worse-than", "5%", "--limit", "31"]) == 3
    *_, line = capfd.readouterr().err.splitlines()
    assert line.startswith(
        "octofold-export: nothing was published: The games do not decide whether small version 2 is at most "
        "5% worse than small version 1."
    )
    assert versions() == ["1"]

    Path("models/ntuple").mkdir()
    Path("models/ntuple/4").symlink_to(newest("ntuple"))
    assert main([*source, "--no-worse-than", "20%"]) == 0  # the same network, so its evaluation continues
    captured = capfd.readouterr()
    assert "with the values of ntuple:models/ntuple/4 made a game count as " in captured.err
    assert "31 games already finished in earlier runs" in captured.err
    assert "small version 2 is at most 20% worse than small version 1." in captured.err
    assert captured.out == "models/small/2\n"
    assert versions() == ["1", "2"]
    (folder,) = Path("results").glob("export-small-v2-*")
    assert json.loads((folder / "comparison.json").read_text())["answer"] is True
    shown = read_card(Path("models/small/2")).no_worse
    assert shown is not None
    assert (shown.than, shown.margin, shown.ratio, shown.games) == (1, 0.2, 1.0, 77)
    assert shown.values == "ntuple:models/ntuple/4"
    assert shown.values_sha256 is not None
    page = Path("models/small/2/README.md").read_text()
    assert "At most 20% worse than version 1: in 77 games each" in page


CONTEST = """
from fractions import Fraction
from pathlib import Path
from octofold_export.flags import Flags
from octofold_export.publishing.strength_gate import play_against_newest

files = {file.name: file.read_bytes() for file in Path("models/small/1").iterdir()}
files["card.json"] = files["card.json"].replace(b'"version": 1', b'"version": 2')
play_against_newest(Flags(name="small", no_worse_than=Fraction(1, 10_000), limit=9_999_999), 2, files, print)
"""


def ended_by(number: signal.Signals, *command: str) -> int:
    """Return the exit code of a command that gets a signal during games; all its processes must end."""
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        wait_for(games_are_played, 100, process)
        players = psutil.Process(process.pid).children(recursive=True)
        assert len(players) > 1  # octofold compare and its server
        process.send_signal(number)
        try:
            assert becomes_true(lambda: not any(map(is_alive, players)))
        finally:
            for player in filter(is_alive, players):
                player.kill()
    return process.returncode


@pytest.mark.usefixtures("published")
def test_the_games_end_when_the_process_of_the_contest_is_killed() -> None:
    assert ended_by(signal.SIGKILL, sys.executable, "-c", CONTEST) == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_each_signal_ends_the_games_and_then_the_export(number: signal.Signals) -> None:
    games = f"echo $$ > games.pid; kill -{number:d} {os.getpid()}; exec tail -f /dev/null"
    with pytest.raises(SystemExit) as ended, handling(exit_by_signal, number):
        strength_gate._run(["sh", "-c", games], os.environ)
    assert ended.value.code == 128 + number
    assert not psutil.pid_exists(int(Path("games.pid").read_text()))


def games_are_played() -> bool:
    return any(file.stat().st_size for file in Path("results").rglob("games.replay"))


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
