"""`octofold-export --no-worse-than`: a version is published only if full games show that it is no worse."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest
from octofold_export.cli import main
from octofold_export.errors import GateError
from octofold_export.publishing import contest
from octofold_export.publishing.contest import Contest, play_contest
from octofold_game.contract.model import read_card
from octofold_game.episodes import Episode
from octofold_game.replays import ReplayWriter
from support.waiting import becomes_true, wait_for

SMALL = {"kind": "cnn", "layers": 1, "channels": 4, "exponents": 16}
of_one_kind = pytest.mark.parametrize("architecture", [SMALL], indirect=True, scope="session")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The games are kept below the working folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def source(checkpoint: Path, boards_file: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The flags of an export."""
    few = tmp_path_factory.mktemp("boards") / "few.npy"
    np.save(few, np.load(boards_file)[:400])
    flags = ["--checkpoint", str(checkpoint), "--boards", str(few), "--precisions", "fp32"]
    return [*flags, "--name", "small"]


@pytest.fixture(scope="module")
def first(source: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with version 1 of `small`."""
    models = tmp_path_factory.mktemp("repository") / "models"
    assert main([*source, "--models", str(models)]) == 0
    return models


@pytest.fixture
def published(first: Path) -> None:
    """A copy of it, where the command looks."""
    shutil.copytree(first, "models")


def versions() -> list[str]:
    return sorted(folder.name for folder in Path("models/small").iterdir() if folder.is_dir())


@of_one_kind
def test_the_first_version_has_nothing_to_play_against(
    source: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*source, "--no-worse-than", "5%"]) == 0
    assert "strength: small has no published version to play against" in capfd.readouterr().err


@of_one_kind
@pytest.mark.usefixtures("published")
def test_games_that_decide_nothing_publish_nothing(
    source: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*source, "--no-worse-than", "5%", "--limit", "101"]) == 3
    *_, line = capfd.readouterr().err.splitlines()
    assert line.startswith(
        "octofold-export: nothing was published: Not decided yet whether small version 2 is at most 5% worse "
        "than small version 1."
    )
    assert versions() == ["1"]


@of_one_kind
@pytest.mark.usefixtures("published")
def test_games_against_the_published_version_decide_that_a_version_is_published(
    source: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*source, "--no-worse-than", "20%"]) == 0  # the same network
    captured = capfd.readouterr()
    assert "small version 2 is at most 20% worse than small version 1." in captured.err
    assert captured.out == "models/small/2\n"
    assert versions() == ["1", "2"]
    (folder,) = Path("results").glob("export-small-v2-*")
    assert json.loads((folder / "comparison.json").read_text())["answer"] is True
    shown = read_card(Path("models/small/2")).no_worse
    assert shown is not None
    assert (shown.than, shown.margin, shown.ratio, shown.games) == (1, 0.2, 1.0, 225)
    assert f"Scores counted up to {shown.cap:,}; " in Path("models/small/2/README.md").read_text()


def made_up(folder: Path, version: str, sha256: str, scores: Sequence[int]) -> None:
    """Games of a version that nobody played, which the next contest finds in its folder."""
    folder.mkdir(parents=True)
    conditions = {"model": "small", "version": version, "precision": "fp32", "sha256": sha256, "seed": 0}
    (folder / "conditions.json").write_text(json.dumps(conditions))
    board = np.zeros(16, np.uint8)
    with ReplayWriter(folder / "games.replay") as writer:
        for game, score in enumerate(scores):
            writer.append(Episode(game, 0, 15, board, bytes(1), score, board))


@of_one_kind
@pytest.mark.usefixtures("published")
def test_a_version_that_loses_everything_in_one_game_of_a_hundred_is_refused_at_half_a_percent() -> None:
    files = {file.name: file.read_bytes() for file in Path("models/small/1").iterdir()}
    sha256 = json.loads(files["card.json"])["precisions"]["fp32"]["sha256"]
    files["card.json"] = files["card.json"].replace(b'"version": 1', b'"version": 2')
    out = Path("results", f"export-small-v2-{hashlib.sha256(files['card.json']).hexdigest()[:8]}")
    random = np.random.default_rng(1)
    ours = random.gamma(2.4, 84_000, 1_500).astype(int)
    theirs = np.where(random.random(1_500) < 0.01, 0, ours)
    for version, scores in (("1", ours), ("2", theirs)):
        made_up(out / f"evaluate-small-v{version}-seed0", version, sha256, scores.tolist())

    with pytest.raises(GateError, match="nothing was published: Not decided yet whether small version 2 is"):
        play_contest(Contest("0.5%", 1_500), Path("models"), "small", 2, files, lambda _: None)


@of_one_kind
@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_the_games_end_with_the_export(source: list[str], number: signal.Signals) -> None:
    program = Path(sys.executable).with_name("octofold-export")
    # With fewer views, it plays other moves about as well: the games are not decided for long.
    command = [str(program), *source, "--symmetries", "2", "--no-worse-than", "0.1%", "--limit", "9999999"]
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_each_signal_ends_what_plays_and_then_the_export(number: signal.Signals) -> None:
    games = f"echo $$ > games.pid; kill -{number:d} {os.getpid()}; exec tail -f /dev/null"
    with pytest.raises(SystemExit) as ended:
        contest._run(["sh", "-c", games], os.environ)
    assert ended.value.code == 128 + number
    assert not psutil.pid_exists(int(Path("games.pid").read_text()))


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
        (("--no-worse-than", "two"), "must be a percentage above 0% and below 100%, such as 2%, got 'two'"),
        (("--no-worse-than", "00%"), "must be a percentage above 0% and below 100%, such as 2%, got '00%'"),
        (("--no-worse-than", "5"), "--no-worse-than: 5 has no percent sign: write 5% for 5 in a hundred"),
        (
            ("--no-worse-than", "5%", "--limit", "100"),
            "--limit: 100 games cannot decide anything: the first 100 only set the cap of the scores",
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
