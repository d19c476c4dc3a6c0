"""--ready-file: young while the server is ready, gone when it is not."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from octofold_server.process.lifecycle import ReadyFile
from support.servers import Start, WriteVersion
from support.waiting import wait_for


def touched_again(file: Path) -> None:
    """Returns once the file is younger than it is now."""
    before = file.stat().st_mtime_ns
    wait_for(lambda: file.exists() and file.stat().st_mtime_ns > before)


def test_the_ready_file_is_touched_while_the_server_is_ready_and_gone_while_it_stops(
    write_version: WriteVersion, start_server: Start, tmp_path: Path
) -> None:
    write_version()
    file = tmp_path / "ready"
    server = start_server("--ready-file", str(file), "--grace", "3600")
    touched_again(file)
    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: not file.exists())  # although it serves on
    assert server.process.poll() is None
    server.process.send_signal(signal.SIGTERM)
    assert server.wait() == 0
    assert not file.exists()


@pytest.fixture
def answers() -> list[bool]:
    return []


@pytest.fixture
def kept(tmp_path: Path, answers: list[bool]) -> Iterator[Path]:
    with ReadyFile(tmp_path / "ready", lambda: bool(answers)):
        yield tmp_path / "ready"


def test_the_ready_file_comes_back_when_the_server_is_ready_again(kept: Path, answers: list[bool]) -> None:
    assert kept.exists()
    wait_for(lambda: not kept.exists())
    answers.append(True)
    wait_for(kept.exists)
