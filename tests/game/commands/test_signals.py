"""Signals end a command in an orderly way, but not under nohup."""

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import pytest
from octofold_game.commands.signals import exit_by_signal, handling


def _note(_number: int, _frame: FrameType | None) -> None:
    """Do nothing; stands for another handler."""


def test_a_signal_ends_the_block_with_its_exit_code_and_restores_its_handler() -> None:
    before = signal.signal(signal.SIGHUP, _note)
    try:
        with pytest.raises(SystemExit) as ended, handling(exit_by_signal, signal.SIGTERM, signal.SIGHUP):
            signal.raise_signal(signal.SIGHUP)
        assert ended.value.code == 129
        assert signal.getsignal(signal.SIGHUP) is _note
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handling(exit_by_signal, signal.SIGHUP):
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_signal_does_not_interrupt_the_cleanup_of_the_first_but_a_later_one_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = time.monotonic()
    monkeypatch.setattr("time.monotonic", lambda: now)
    with handling(signal.default_int_handler, signal.SIGTERM, signal.SIGHUP):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
        now += 10
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


def test_output_to_a_closed_pipe_is_discarded() -> None:
    code = (
        "import signal, sys\n"
        "from octofold_game.commands.signals import handling\n"
        "with handling(lambda *_: None, signal.SIGTERM):\n"
        "    input()\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    print('to nobody', flush=True)\n"
        "print('to somebody', file=sys.stderr)\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write("\n")
        process.stdin.close()
        assert process.stderr.read() == "to somebody\n"
        assert process.wait(100) == 0


def test_a_thread_does_not_change_signal_handlers() -> None:
    def own() -> object:
        with handling(exit_by_signal, signal.SIGTERM):
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(own).result(100) is signal.getsignal(signal.SIGTERM)
