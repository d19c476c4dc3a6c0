"""A write replaces the whole file or leaves it unchanged; a read never waits, and its memory is limited."""

import copy
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from octofold_game.system.files import appending, atomic_write, read_regular, write_text


def test_a_file_is_replaced_atomically_and_no_temporary_file_remains(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text("old")
    with atomic_write(file) as partial:
        partial.write_text("new")
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("opened", [atomic_write, appending])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(28, "No space left on device"), r"No space left on device: '.*result\.json'$"),
        (OSError("encoder error"), "^encoder error$"),
        (OSError(2, "No such file", "another"), "No such file: 'another'$"),
    ],
)
def test_an_error_without_a_file_name_gets_one(
    tmp_path: Path, opened: Callable[[Path], AbstractContextManager[object]], error: OSError, told: str
) -> None:
    fresh = copy.copy(error)  # an error keeps the name of its file, so each test needs a new one
    with pytest.raises(OSError, match=told), opened(tmp_path / "result.json"):
        raise fresh


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    write_text(file, "old")

    def fill_the_disk() -> None:
        with atomic_write(file) as partial:
            partial.write_text("ne")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        fill_the_disk()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_the_last_of_two_concurrent_writers_wins(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    with atomic_write(file) as partial:
        partial.write_text("begun first")
        with ThreadPoolExecutor() as other:
            other.submit(write_text, file, "begun later").result()
        assert file.read_text() == "begun later"
    assert file.read_text() == "begun first"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    path = Path("/dev/zero") if kind == "device" else tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(OSError, match="it is not a regular file"):
        read_regular(path, 100)


def test_a_file_is_read_up_to_the_allowed_size(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_regular(file, 5) == b"12345"
    with pytest.raises(OSError, match="it has more than 4 bytes"):
        read_regular(file, 4)
