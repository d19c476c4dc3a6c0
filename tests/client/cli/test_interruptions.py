"""Evaluations that Ctrl-C, a dead server or a closed terminal ends: no game is lost, no process is left
behind."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from octofold_client.evaluation.interrupts import DeferredInterrupts
from octofold_game.replays import read_replays, recover
from support.commands import Command
from support.evaluations import ENDLESS, GAMES, OPTIONS, first_games, go_on, wait_for_games
from support.replays import Replays, replays_of
from support.servers import served
from support.waiting import wait_for

FINITE = [*OPTIONS, "--games", str(GAMES)]
SECONDS = 60
Start = Callable[..., Command]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A function that starts octofold in tmp_path. Processes that a failed test leaves running are ended."""
    started = []

    def start(*arguments: str) -> Command:
        started.append(Command(*arguments, folder=tmp_path))
        return started[-1]

    yield start
    for command in started:
        if command.poll() is None:
            for child in psutil.Process(command.pid).children():
                child.kill()
        command.close()


def test_after_ctrl_c_an_evaluation_continues_at_the_last_move_and_ends_with_the_same_games(
    start: Start, brief_target: str, tmp_path: Path, uninterrupted: Replays
) -> None:
    process = start("evaluate", *ENDLESS, "--target", brief_target, "--out", "out")
    wait_for_games(tmp_path / "out", process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, errors
    kept, folder, interrupted = errors.splitlines()[-3:]
    assert "of 1,000,000 games finished, " in kept
    assert kept.endswith(" more in progress; all are kept, and the same command continues them:")
    assert folder == "out"
    assert interrupted == "octofold: interrupted"
    assert "Traceback" not in errors
    before = replays_of(tmp_path / "out")
    assert before
    assert not (tmp_path / "out" / "result.json").exists()
    unfinished = list(read_replays(tmp_path / "out" / "unfinished.replay"))
    assert unfinished

    go_on(tmp_path, brief_target)
    after = replays_of(tmp_path / "out")
    assert before.items() <= after.items()
    assert first_games(tmp_path / "out") == uninterrupted
    kept_moves = sum(map(len, unfinished)) + sum(len(moves) for _, moves, _ in before.values())
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["run"]["moves"] + kept_moves == sum(len(moves) for _, moves, _ in after.values())
    assert not (tmp_path / "out" / "unfinished.replay").exists()


def test_a_killed_client_continues_with_the_last_saved_games(
    start: Start, brief_target: str, tmp_path: Path, uninterrupted: Replays
) -> None:
    process = start("evaluate", *ENDLESS, "--target", brief_target, "--out", "out")
    saved = tmp_path / "out" / "unfinished.replay"
    wait_for(saved.exists, process=process)
    process.kill()
    process.communicate(timeout=SECONDS)
    recover(tmp_path / "out" / "games.replay")
    before = replays_of(tmp_path / "out")
    kept = [len(episode) for episode in read_replays(saved) if episode.game not in before]
    go_on(tmp_path, brief_target)
    after = replays_of(tmp_path / "out")
    assert before.items() <= after.items()
    assert first_games(tmp_path / "out") == uninterrupted
    moves = sum(len(moves) for _, moves, _ in after.values()) - sum(
        len(moves) for _, moves, _ in before.values()
    )
    assert json.loads((tmp_path / "out" / "result.json").read_text())["run"]["moves"] == moves - sum(kept)


def test_an_evaluation_waits_for_a_server_that_restarts(
    start: Start, brief_repository: Path, tmp_path: Path, uninterrupted: Replays, port: int
) -> None:
    with served(brief_repository, "--port", str(port)) as server:
        options = ["--target", server.target, "--out", "out", "--patience", "3600"]
        process = start("evaluate", *FINITE, *options)
        wait_for_games(tmp_path / "out", process)
        server.process.kill()
        server.wait()
    with served(brief_repository, "--port", str(port)):
        _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    assert replays_of(tmp_path / "out") == uninterrupted


def test_ctrl_c_works_while_a_server_hangs(start: Start, brief_repository: Path, tmp_path: Path) -> None:
    with served(brief_repository) as server:
        process = start("evaluate", *ENDLESS, "--target", server.target, "--out", "out")
        wait_for_games(tmp_path / "out", process)
        server.process.send_signal(signal.SIGSTOP)
        try:
            process.send_signal(signal.SIGINT)
            # less than the minute for which the open call would wait
            _, errors = process.communicate(timeout=45)
        finally:
            server.process.kill()
    assert process.returncode == 130, errors
    assert "are kept, and the same command continues them:\nout\n" in errors
    assert errors.splitlines()[-1] == "octofold: interrupted"
    assert "Traceback" not in errors
    assert replays_of(tmp_path / "out")


def server_of(process: Command) -> psutil.Process:
    (server,) = psutil.Process(process.pid).children()
    return server


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_other_signals_end_an_evaluation_and_keep_finished_games(
    start: Start, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    process = start("evaluate", *ENDLESS, "--player", "random", "--out", "out")
    wait_for_games(tmp_path / "out", process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == code, errors
    assert replays_of(tmp_path / "out")
    assert "Traceback" not in errors


def test_play_shows_the_last_log_lines_of_a_server_that_dies(
    start: Start, brief_repository: Path, tmp_path: Path
) -> None:
    process = start("play", *ENDLESS, "--models", str(brief_repository), "--out", "out", "--patience", "1")
    wait_for_games(tmp_path / "out", process)
    server_of(process).kill()
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert "octofold: the server ended with exit code -9:" in errors
    assert "serving on 127.0.0.1" in errors
    assert "Traceback" not in errors


def test_any_number_of_signals_waits_for_the_next_check() -> None:
    interrupts = DeferredInterrupts()
    interrupts.__enter__()
    interrupts.check()
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        interrupts.check()
    with pytest.raises(KeyboardInterrupt):
        interrupts.__exit__(None, None, None)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_server_of_a_command_ends_with_it_even_if_the_command_is_killed(
    start: Start, brief_repository: Path, tmp_path: Path
) -> None:
    process = start("play", "--models", str(brief_repository), "--games", "1000000", "--seed", "1")
    wait_for(lambda: any((tmp_path / "results").rglob("games.replay")), process=process)
    (server,) = psutil.Process(process.pid).children()
    process.kill()
    process.wait(SECONDS)
    server.wait(SECONDS)  # raises if the server is still running
