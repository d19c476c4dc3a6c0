"""Compiled functions also work where numba cannot write beside the sources or in a home folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numba
import pytest
from octofold_game.compiling import Notice
from support.forks import forks_of

MODULE = """\
from octofold_game.compiling import njit

@njit(cache=True)
def twice(number):
    return 2 * number
"""
SMALL = "from small import twice; assert twice(2) == 4"


class Installation:
    """Packages in folders where numba cannot write, not even for root, because files stand in place of its
    folders."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.temporary, self.work = folder, folder / "tmp", folder / "work"
        for each in (self.temporary, self.work):
            each.mkdir()
            each.chmod(0o777)
        (folder / "small.py").write_text(MODULE)
        (folder / "main.py").write_text(SMALL)
        (folder / "__pycache__").touch()
        self.paths = os.pathsep.join([str(folder), str(Path(numba.__file__).parents[1])])
        self.variables = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": self.paths,
            "TMPDIR": str(self.temporary),
        }

    def compile(self, **more: str) -> str:
        """Call the function in `small.py` in a new process; return its standard error."""
        environment = {**self.variables, "HOME": "/dev/null", **more}
        with tempfile.TemporaryFile("w+") as errors:
            streams = (errors.fileno(), errors.fileno(), errors.fileno())
            process = forks_of("octofold").start(
                [], streams, program=str(self.folder / "main.py"), folder=self.work, environment=environment
            )
            code = process.wait()
            errors.seek(0)
            said = errors.read()
        assert code == 0, said
        return said


@pytest.fixture
def installation() -> Iterator[Installation]:
    """An installation that every user can read."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Installation(Path(folder))


def test_the_first_run_announces_compilation_and_the_second_uses_the_cache(
    installation: Installation,
) -> None:
    kept = installation.temporary / f"octofold-{os.geteuid()}"
    assert installation.compile() == f"compiling takes a while, but only once: {kept} keeps the result\n"
    assert kept.stat().st_mode & 0o777 == 0o700
    assert list(kept.rglob("*.nbi"))
    assert installation.compile() == ""


def test_slow_compilation_is_announced_once(caplog: pytest.LogCaptureFixture) -> None:
    seconds = iter([0, 0.5, 1, 10, 12, 13, 20, 21, 22.0])
    notice = Notice(lambda: next(seconds))
    notice.on_start(None)
    notice.on_start(None)  # a function that the first one calls
    notice.on_end(None)
    notice.on_end(None)
    assert caplog.messages == []  # 1 second in total: no notice
    for _ in range(2):
        notice.on_start(None)
        notice.on_start(None)
        notice.on_end(None)
        notice.on_end(None)
    assert caplog.messages == ["compiling takes a while, but only once: the result is kept"]


def test_a_service_caches_compiled_code_in_the_folder_that_systemd_gives_it(
    installation: Installation,
) -> None:
    (installation.work / "cache").mkdir()
    installation.compile(CACHE_DIRECTORY=str(installation.work / "cache"))
    assert list((installation.work / "cache").rglob("*.nbi"))
    assert list(installation.temporary.iterdir()) == []


def test_a_cache_folder_of_other_users_is_neither_read_nor_written(installation: Installation) -> None:
    kept = installation.temporary / f"octofold-{os.geteuid()}"
    kept.mkdir()
    kept.chmod(0o777)
    said = installation.compile()
    assert said.startswith(f"compiled code cannot be cached ({kept} must be a folder of user")
    assert list(kept.iterdir()) == []
