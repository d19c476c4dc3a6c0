"""Evaluations with several servers and models play the same games, whichever server answers or dies."""

import hashlib
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from support.commands import Command
from support.evaluations import ENDLESS, GAMES, OPTIONS, evaluate, first_games, go_on, wait_for_games
from support.replays import Replays, replays_of
from support.servers import ServerProcess, served, write_model
from support.waiting import wait_for

SECONDS = 60


@contextmanager
def begun(folder: Path, *targets: ServerProcess | str, patience: int = 10) -> Iterator[Command]:
    """Run an evaluation with these servers until some games are finished; kill it at the end of the block."""
    addresses = [target if isinstance(target, str) else target.target for target in targets]
    flags = ["--target", ",".join(addresses), "--out", "out", f"--patience={patience}"]
    command = Command("evaluate", *ENDLESS, *flags, folder=folder)
    try:
        wait_for_games(folder / "out", command)
        yield command
    finally:
        command.close()


def test_two_servers_play_the_games_of_one_even_if_one_of_them_dies(
    brief_target: str, second: ServerProcess, tmp_path: Path, uninterrupted: Replays
) -> None:
    both = f"{second.target},{brief_target}"
    done = evaluate(tmp_path, *OPTIONS, "--games", str(GAMES), "--target", both, "--out", "both")
    assert done.returncode == 0, done
    assert replays_of(tmp_path / "both") == uninterrupted

    with begun(tmp_path, second, brief_target) as process:
        second.process.kill()
        wait_for(lambda: f"continuing without {second.target}: " in process.errors, process=process)
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 130

    done = go_on(tmp_path, both)
    assert f"continuing without {second.target}: no Octofold server answers at {second.target}" in done.stderr
    assert first_games(tmp_path / "out") == uninterrupted


@pytest.mark.parametrize("how", ["restart", "reload", "one of two"])
def test_other_files_of_the_same_version_end_an_evaluation_which_continues_with_the_same_files(
    how: str, small_model: bytes, brief_target: str, port: int, tmp_path: Path, uninterrupted: Replays
) -> None:
    models = tmp_path / "models"
    version = write_model(models, small_model, "small", largest_exponent=6)
    other = write_model(tmp_path / "other", small_model + b"2\x01x", "small", largest_exponent=6)  # a comment
    flags = ["--port", str(port), "--watch", "0.1"]
    with ExitStack() as stack:
        changing = stack.enter_context(served(models, *flags))
        targets = [brief_target, changing] if how == "one of two" else [changing]
        process = stack.enter_context(begun(tmp_path, *targets, patience=3600))
        version.rename(tmp_path / "before")
        other.rename(version)
        if how != "reload":
            changing.process.kill()
            changing.wait()
            stack.enter_context(served(models, *flags))
        _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 1, errors
    last = errors.splitlines()[-1]
    assert last.startswith("octofold: a different player answers now: small version 1 fp32 (digest ")
    assert "the same command continues them" in errors
    assert f"expected small version 1 fp32 (digest {hashlib.sha256(small_model).hexdigest()[:16]})" in last
    go_on(tmp_path, brief_target)
    assert first_games(tmp_path / "out") == uninterrupted


def test_several_models_are_evaluated_in_turn_into_separate_folders(
    publish_model: Callable[..., Path], tmp_path: Path
) -> None:
    publish_model(tmp_path / "models", name="one", largest_exponent=3)
    publish_model(tmp_path / "models", name="two", version=1, largest_exponent=3)
    publish_model(tmp_path / "models", name="two", version=2, largest_exponent=3)
    with served(tmp_path / "models") as server:
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
        done = evaluate(tmp_path, *options, "--model", "one,three", "--out", "none")
        assert done.returncode == 1
        assert "has no model three" in done.stderr
        assert not (tmp_path / "none" / "evaluate-one-v1-seed0").exists()
