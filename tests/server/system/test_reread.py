"""Files that change: what is read again, what stays in force, and what the log says of it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from octofold_server.system.reread import FileError, Reread
from support.waiting import wait_for


class Number:
    """Reads a file that holds a number, and counts how often."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reads = 0

    def __call__(self) -> int:
        self.reads += 1
        try:
            return int(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise FileError("that is no number") from None


@pytest.fixture
def read(tmp_path: Path) -> Number:
    (tmp_path / "number").write_text("1", encoding="utf-8")
    return Number(tmp_path / "number")


def test_a_file_is_read_again_when_it_has_changed_and_only_then(read: Number) -> None:
    number = Reread([read.path], read)
    assert [number.look() for _ in range(5)] == [1] * 5
    assert read.reads == 1
    read.path.write_text("22", encoding="utf-8")
    assert [number.look() for _ in range(5)] == [22] * 5
    assert read.reads == 2


def test_a_file_of_a_secret_is_read_again_when_kubernetes_swaps_the_folder_behind_it(tmp_path: Path) -> None:
    for number in ("1", "22"):
        (tmp_path / f"..{number}").mkdir()
        (tmp_path / f"..{number}" / "number").write_text(number, encoding="utf-8")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "number").symlink_to("..data/number")
    read = Number(tmp_path / "number")
    number_of = Reread([read.path], read)
    assert number_of.look() == 1
    (tmp_path / "..data_tmp").symlink_to("..22")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")
    assert number_of.look() == 22


def test_what_cannot_be_used_is_told_once_and_the_last_good_content_stays(
    read: Number, caplog: pytest.LogCaptureFixture
) -> None:
    number = Reread([read.path], read)
    read.path.write_text("none", encoding="utf-8")
    assert [number.look() for _ in range(5)] == [1] * 5
    read.path.unlink()
    assert [number.look() for _ in range(5)] == [1] * 5
    assert caplog.text.count(f"{read.path} has changed, but cannot be used: that is no number") == 2
    read.path.write_text("333", encoding="utf-8")
    assert number.look() == 333


def test_files_on_a_mount_that_hangs_hold_up_nobody_who_uses_their_content(read: Number) -> None:
    hangs, goes_on = threading.Event(), threading.Event()
    goes_on.set()

    def read_from_mount() -> int:
        hangs.set()
        goes_on.wait()
        return read()

    number = Reread([read.path], read_from_mount).watch(0.01)
    hangs.clear()
    goes_on.clear()
    read.path.write_text("22", encoding="utf-8")
    assert hangs.wait(60)
    assert number.content == 1
    goes_on.set()
    wait_for(lambda: number.content == 22)


def test_nobody_looks_at_files_that_are_no_longer_used(read: Number) -> None:
    before = set(threading.enumerate())
    number = Reread([read.path], read).watch(0.01)
    (watching,) = set(threading.enumerate()) - before
    del number
    watching.join(60)
    assert not watching.is_alive()


def test_what_cannot_be_used_at_the_start_is_an_error(read: Number) -> None:
    read.path.write_text("none", encoding="utf-8")
    with pytest.raises(FileError, match="that is no number"):
        Reread([read.path], read)


def unix_time() -> float:
    """A clock that stands still."""
    return 1_800_000_000.0


def write_at(path: Path, text: str, seconds_ago: float) -> None:
    path.write_text(text, encoding="utf-8")
    os.utime(path, (unix_time() - seconds_ago,) * 2)


def test_a_file_that_is_being_written_is_not_read_before_it_is_whole(read: Number) -> None:
    number = Reread([read.path], read, settle=True, unix_time=unix_time)
    write_at(read.path, "", 2.0)  # as a shell leaves it until a command has something to say
    assert number.look() == 1
    write_at(read.path, "2", -3600.0)  # and who knows whether this is all
    assert number.look() == 1
    assert read.reads == 1
    write_at(read.path, "22", 1.5)
    assert number.look() == 22


def test_a_file_that_stays_empty_or_missing_is_read_in_the_end(read: Number) -> None:
    number = Reread(
        [read.path], lambda: read.path.exists() and read.path.stat().st_size, settle=True, unix_time=unix_time
    )
    write_at(read.path, "", 6.0)
    assert number.look() == 0
    read.path.unlink()
    os.utime(read.path.parent, (unix_time() - 2.0,) * 2)
    assert number.look() is not False
    os.utime(read.path.parent, (unix_time() - 6.0,) * 2)
    assert number.look() is False


def test_a_file_with_a_time_to_come_is_read_once_it_has_looked_the_same_for_a_while(read: Number) -> None:
    number = Reread([read.path], read, settle=True, unix_time=unix_time)
    write_at(read.path, "22", -3600.0)
    wait_for(lambda: number.look() == 22)
