"""Evaluations over several servers and of several models: the same games, whoever answers, whoever dies."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from octofold_client.rpc.local_server import LocalServer
from support.commands import octofold
from support.replays import Replays, replays_of
from support.waiting import wait_for

OCTOFOLD = Path(sys.executable).with_name("octofold")
GAMES = 120
OPTIONS = ["--games", str(GAMES), "--seed", "11", "--parallel", "8"]
SECONDS = 60


def evaluate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return octofold("evaluate", *arguments, folder=folder, timeout=SECONDS)


@pytest.fixture
def second(repository: Path) -> Iterator[LocalServer]:
    """Another server of the same models, for a test to do with as it likes."""
    with LocalServer(repository) as server:
        yield server


@pytest.fixture(scope="module")
def alone(target: str, tmp_path_factory: pytest.TempPathFactory) -> Replays:
    """The games as one server plays them."""
    folder = tmp_path_factory.mktemp("alone")
    assert evaluate(folder, *OPTIONS, "--target", target, "--out", "out").returncode == 0
    return replays_of(folder / "out")


def begun(folder: Path, *targets: LocalServer | str, patience: int = 10) -> subprocess.Popen[str]:
    """An evaluation by these servers that has finished some games."""
    addresses = [target if isinstance(target, str) else target.target for target in targets]
    process = subprocess.Popen(
        [
            OCTOFOLD,
            "evaluate",
            *OPTIONS,
            "--target",
            ",".join(addresses),
            "--out",
            "out",
            f"--patience={patience}",
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    replays = folder / "out" / "games.replay"
    wait_for(lambda: replays.exists() and replays.stat().st_size > 400, process=process)
    return process


def kill(server: LocalServer) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)


def test_two_servers_play_the_games_that_one_would_and_so_does_one_if_the_other_dies(
    target: str, second: LocalServer, tmp_path: Path, alone: Replays
) -> None:
    both = f"{second.target},{target}"
    done = evaluate(tmp_path, *OPTIONS, "--target", both, "--out", "both")
    assert done.returncode == 0, done
    assert replays_of(tmp_path / "both") == alone

    process = begun(tmp_path, second, target)
    kill(second)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    assert f"continuing without {second.target}: " in errors
    assert replays_of(tmp_path / "out") == alone

    done = evaluate(tmp_path, *OPTIONS, "--target", both, "--out", "after")
    assert done.returncode == 0, done
    assert f"continuing without {second.target}: no Octofold server answers at {second.target}" in done.stderr
    assert replays_of(tmp_path / "after") == alone


def test_when_all_servers_die_the_finished_games_are_kept(
    second: LocalServer, repository: Path, tmp_path: Path
) -> None:
    with LocalServer(repository) as third:
        process = begun(tmp_path, second, third, patience=0)
        kill(second)
        kill(third)
        _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert "are kept, and the same command continues them:\nout\n" in errors
    assert "Traceback" not in errors
    assert 0 < len(replays_of(tmp_path / "out")) < GAMES


def test_several_models_are_played_one_after_the_other_into_folders_of_their_own(
    publish_model: Callable[..., Path], tmp_path: Path
) -> None:
    publish_model(tmp_path / "models", name="one")
    publish_model(tmp_path / "models", name="two", version=1)
    publish_model(tmp_path / "models", name="two", version=2)
    with LocalServer(tmp_path / "models") as server:
        options = ["--games", "3", "--target", server.target]
        done = evaluate(tmp_path, *options, "--model", "one,two:1,two")
        assert done.returncode == 0, done
        for name in ("one version 1", "two version 1", "two version 2"):
            assert f"**{name}: 3 games, seed 0**" in done.stdout
        assert sorted(folder.name for folder in (tmp_path / "results").iterdir()) == [
            "evaluate-one-v1-seed0",
            "evaluate-two-v1-seed0",
            "evaluate-two-v2-seed0",
        ]
        done = evaluate(tmp_path, *options, "--model", "one,two", "--out", "out")
        assert sorted(folder.name for folder in (tmp_path / "out").iterdir()) == [
            "evaluate-one-v1-seed0",
            "evaluate-two-v2-seed0",
        ]
        done = evaluate(tmp_path, *options, "--model", "one,three", "--out", "none")
        assert done.returncode == 1
        assert "has no model three" in done.stderr
        assert not (tmp_path / "none" / "evaluate-one-v1-seed0").exists()


def test_servers_of_different_files_do_not_share_an_evaluation(
    publish_model: Callable[..., Path], target: str, tmp_path: Path
) -> None:
    folder = publish_model(tmp_path / "models")
    model = folder / "model.onnx"
    card = json.loads((folder / "card.json").read_text())
    # The same network under another digest: a field that onnxruntime does not mind.
    model.write_bytes(model.read_bytes() + b"\x12\x01x")
    card["precisions"]["fp32"]["sha256"] = hashlib.sha256(model.read_bytes()).hexdigest()
    (folder / "card.json").write_text(json.dumps(card))
    with LocalServer(tmp_path / "models") as server:
        done = evaluate(tmp_path, "--target", f"{target},{server.target}", "--out", "out")
    assert done.returncode == 1
    assert (
        f"octofold: {server.target} and {target} have different files of small version 1: sha256 "
        in done.stderr
    )


def test_where_no_server_answers_each_is_named(tmp_path: Path) -> None:
    done = evaluate(tmp_path, "--target", "127.0.0.1:1,127.0.0.1:2", "--out", "out")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("octofold: none of 2 servers answers: no Octofold server answers at 127.0.0.1:1: ")
    assert "; no Octofold server answers at 127.0.0.1:2: " in line


def test_a_list_with_an_empty_name_is_refused(tmp_path: Path) -> None:
    done = evaluate(tmp_path, "--model", "a:1,")
    assert done.returncode == 2
    assert "'a:1,' contains an empty name" in done.stderr


def test_the_same_server_twice_is_refused(tmp_path: Path) -> None:
    done = evaluate(tmp_path, "--target", "127.0.0.1:1,127.0.0.1:1")
    assert done.returncode == 2
    assert "--target: contains 127.0.0.1:1 twice" in done.stderr
