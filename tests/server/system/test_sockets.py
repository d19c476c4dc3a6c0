"""The folder of the server's own sockets if some folders are not writable."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from octofold_server.system import sockets
from octofold_server.system.sockets import StartupError, socket_folder

SHARED_MEMORY = Path("/dev/shm")


@pytest.mark.skipif(not SHARED_MEMORY.is_dir(), reason="this system has no /dev/shm")
def test_sockets_are_in_shared_memory_if_no_folder_for_temporary_files_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    monkeypatch.setattr(sockets, "OTHER_PARENTS", ("/nowhere", *sockets.OTHER_PARENTS[1:]))
    with socket_folder() as folder:
        assert folder.parent == SHARED_MEMORY
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_without_any_place_for_sockets_the_error_says_what_helps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file, long = tmp_path / "file", tmp_path / ("long" * 30)
    file.touch()
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    monkeypatch.setattr(sockets, "OTHER_PARENTS", (str(file), str(long)))
    with pytest.raises(StartupError) as failure, socket_folder():
        pass
    assert "set TMPDIR to a writable folder with a short path" in str(failure.value)
    assert not list(long.iterdir())
