"""A write replaces the whole file or leaves it unchanged."""

from pathlib import Path

import pytest
from octofold_game.files import whole_file, write_text


def test_a_file_is_replaced_at_once_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text("old")
    with whole_file(file) as partial:
        partial.write_text("new")
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert list(tmp_path.iterdir()) == [file]


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    write_text(file, "old")

    def fill_the_disk() -> None:
        with whole_file(file) as partial:
            partial.write_text("ne")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        fill_the_disk()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
