"""Changed files are read again, invalid ones leave the old content in force, and the log reports both."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from octofold_server.system.watched_files import FileError, WatchedFiles
from support.waiting import wait_for


class Number:
    """A reader of a file with a number. It counts how often it reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reads = 0

    def __call__(self) -> int:
        self.reads += 1
        try:
            return int(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise FileError("that is no number") from None


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def read(tmp_path: Path) -> Number:
    (tmp_path / "number").write_text("1", encoding="utf-8")
    return Number(tmp_path / "number")


def check_twice(number: WatchedFiles[int], clock: Clock, seconds: float = 1.0) -> int:
    """Check the file twice, some seconds apart; return the content in force."""
    number.check()
    clock.now += seconds
    number.check()
    return number.content


def test_a_file_is_read_again_when_it_has_changed_and_only_then(read: Number, clock: Clock) -> None:
    number = WatchedFiles([read.path], read, clock)
    assert [check_twice(number, clock) for _ in range(5)] == [1] * 5
    assert read.reads == 1
    read.path.write_text("22", encoding="utf-8")
    assert [check_twice(number, clock) for _ in range(5)] == [22] * 5
    assert read.reads == 2


def test_a_file_of_a_secret_is_read_again_when_kubernetes_replaces_its_folder(
    tmp_path: Path, clock: Clock
) -> None:
    for number in ("1", "22"):
        (tmp_path / f"..{number}").mkdir()
        (tmp_path / f"..{number}" / "number").write_text(number, encoding="utf-8")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "number").symlink_to("..data/number")
    read = Number(tmp_path / "number")
    number_of = WatchedFiles([read.path], read, clock)
    (tmp_path / "..data_tmp").symlink_to("..22")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")
    assert check_twice(number_of, clock) == 22


def test_unusable_content_is_logged_once_and_the_last_good_content_stays(
    read: Number, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    number = WatchedFiles([read.path], read, clock)
    read.path.write_text("none", encoding="utf-8")
    assert [check_twice(number, clock) for _ in range(5)] == [1] * 5
    assert caplog.text.count(f"cannot use changed files ({read.path}): that is no number") == 1
    read.path.write_text("333", encoding="utf-8")
    assert check_twice(number, clock) == 333


def test_a_file_that_is_being_written_is_not_read_before_it_is_complete(read: Number, clock: Clock) -> None:
    number = WatchedFiles([read.path], read, clock)
    for text in ("", "2", "22"):  # a shell creates the file empty before a command writes to it
        read.path.write_text(text, encoding="utf-8")
        assert check_twice(number, clock, 0.9) == 1
    assert read.reads == 1
    assert check_twice(number, clock, 0.2) == 22


def test_a_file_that_stays_empty_or_missing_is_read_eventually(read: Number, clock: Clock) -> None:
    size = WatchedFiles([read.path], lambda: read.path.stat().st_size if read.path.exists() else -1, clock)
    read.path.write_text("", encoding="utf-8")
    assert check_twice(size, clock, 4.0) == 1
    assert check_twice(size, clock, 1.0) == 0
    read.path.unlink()
    assert check_twice(size, clock, 4.0) == 0
    assert check_twice(size, clock, 1.0) == -1


def test_files_on_a_hanging_mount_do_not_delay_calls(read: Number) -> None:
    hangs, goes_on = threading.Event(), threading.Event()
    goes_on.set()

    def read_from_mount() -> int:
        hangs.set()
        goes_on.wait()
        return read()

    number = WatchedFiles([read.path], read_from_mount).watch(0.01)
    hangs.clear()
    goes_on.clear()
    read.path.write_text("22", encoding="utf-8")
    assert hangs.wait(60)
    assert number.content == 1
    goes_on.set()
    wait_for(lambda: number.content == 22)


def test_unusable_content_at_the_start_is_an_error(read: Number) -> None:
    read.path.write_text("none", encoding="utf-8")
    with pytest.raises(FileError, match="that is no number"):
        WatchedFiles([read.path], read)
