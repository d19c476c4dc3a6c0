"""`octofold-export --no-worse-than`: a version is published only if full games show that it is no worse."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from octofold_export.cli import main
from support.waiting import becomes_true, wait_for

SMALL = {"kind": "cnn", "layers": 1, "channels": 4, "exponents": 16}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The games are kept below the working folder."""
    monkeypatch.chdir(tmp_path)


def export(checkpoint: Path, boards: Path, *more: str) -> int:
    source = ["--checkpoint", str(checkpoint), "--boards", str(boards), "--precisions", "fp32"]
    return main([*source, "--name", "small", *more])


def versions() -> list[str]:
    return sorted(folder.name for folder in Path("models/small").iterdir() if folder.is_dir())


@pytest.mark.parametrize("architecture", [SMALL], indirect=True, scope="session")
def test_games_against_the_published_version_decide_whether_a_version_is_published(
    checkpoint: Path, boards_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert export(checkpoint, boards_file, "--no-worse-than", "5%") == 0
    assert "strength: small has no published version to play against" in capfd.readouterr().err

    assert export(checkpoint, boards_file, "--no-worse-than", "5%", "--limit", "20") == 3
    *_, line = capfd.readouterr().err.splitlines()
    assert line.startswith(
        "octofold-export: nothing was published: Not decided yet whether small version 2 is at most 5% worse "
        "than small version 1."
    )
    assert versions() == ["1"]

    assert export(checkpoint, boards_file, "--no-worse-than", "5%") == 0  # the same network
    captured = capfd.readouterr()
    assert "small version 2 is at most 5% worse than small version 1." in captured.err
    assert captured.out == "models/small/2\n"
    assert versions() == ["1", "2"]
    (folder,) = Path("results").glob("export-small-v2-*")
    assert json.loads((folder / "comparison.json").read_text())["answer"] is True


@pytest.mark.parametrize("architecture", [SMALL], indirect=True, scope="session")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_the_games_end_with_the_export(checkpoint: Path, boards_file: Path, number: signal.Signals) -> None:
    assert export(checkpoint, boards_file) == 0
    program = Path(sys.executable).with_name("octofold-export")
    command = [str(program), "--checkpoint", str(checkpoint), "--boards", str(boards_file)]
    # With fewer views, it plays other moves about as well: the games are not decided for long.
    command += ["--name", "small", "--precisions", "fp32", "--symmetries", "2"]
    command += ["--no-worse-than", "0.1%", "--limit", "9999999"]
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
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert versions() == ["1"]


def games_are_played() -> bool:
    return any(file.stat().st_size for file in Path("results").rglob("games.replay"))


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--no-worse-than", "two"), "--no-worse-than: 'two' is not a percentage above 0% and below 100%"),
        (("--no-worse-than", "00%"), "--no-worse-than: '00%' is not a percentage above 0% and below 100%"),
        (
            ("--no-worse-than", "2%", "--extend", "--version", "1"),
            "--no-worse-than is for a new version; --extend publishes none",
        ),
    ],
)
def test_a_wrong_margin_is_refused_before_any_work(
    more: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--checkpoint", "none", "--name", "small", *more])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
