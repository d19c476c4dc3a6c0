"""The files that tell others of the server: what can be written is accepted, all else is refused."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from octofold_server.config.options import Config
from octofold_server.process.places import check_places
from octofold_server.system.sockets import StartupError

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for everybody, and the rights of a user who is not root."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o777)
        if user == 0:
            os.seteuid(NOBODY)
        try:
            yield Path(made)
        finally:
            os.seteuid(user)


def test_a_port_file_is_replaced_whatever_its_rights(folder: Path) -> None:
    file = folder / "port"
    file.touch(0o444)
    check_places(Config(port_file=file))
    assert list(folder.iterdir()) == [file]


def test_a_port_file_needs_a_folder_that_can_be_written(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir()
    (closed / "port").touch()
    closed.chmod(0o555)
    with pytest.raises(StartupError, match=r"cannot write the port file .*closed/port: Permission denied"):
        check_places(Config(port_file=closed / "port"))


def test_a_ready_file_that_is_there_needs_no_other_file_in_its_folder(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir()
    file = closed / "ready"
    file.touch(0o444)
    os.utime(file, (1, 1))
    closed.chmod(0o555)
    check_places(Config(ready_file=file))
    assert file.stat().st_mtime == 1  # a probe sees no server that is ready
    with pytest.raises(StartupError, match=r"cannot write the ready file .*closed/new: Permission denied"):
        check_places(Config(ready_file=closed / "new"))


@pytest.mark.usefixtures("folder")
def test_a_ready_file_of_another_user_is_refused() -> None:
    with pytest.raises(StartupError, match="cannot write the ready file /etc/passwd: Permission denied"):
        check_places(Config(ready_file=Path("/etc/passwd")))
