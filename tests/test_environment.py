"""The environment of a clone is its own, also after the clone was moved or copied, or its Python has changed.

The rules of the Makefile run, with a real virtual environment. Only what pip would install is left out.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = """\
#!/bin/sh
test "$1 $2" = "-m venv" || exec {python} "$@"
{python} -m venv --without-pip "$3" && cp {fakes}/pip "$3/bin/pip"
"""
PIP = """\
#!/bin/sh
echo "$PWD" >> installed
"""
OTHER = """\
#!/bin/sh
echo 3.99
"""
MINOR = "{}.{}".format(*sys.version_info[:2])


class Clone:
    """A folder with the Makefile."""

    def __init__(self, folder: Path, fakes: Path) -> None:
        self.folder = folder
        of_outer_make = {"MAKEFLAGS", "MAKEOVERRIDES", "PYTHON", "SERVER", "VENV"}
        kept = {name: value for name, value in os.environ.items() if name not in of_outer_make}
        self._variables = {**kept, "PATH": f"{fakes}:{kept['PATH']}"}

    def make(self, *arguments: str) -> str:
        """Run make, which must end well, and return what it said."""
        command = ["make", "--silent", *arguments]
        done = subprocess.run(command, cwd=self.folder, env=self._variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def installed(self) -> list[str]:
        """The folders in which something was installed since the last look."""
        log = self.folder / "installed"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """A clone whose environment is made, in a folder with a name that shells and make could misread."""
    fakes, folder = tmp_path / "fakes", tmp_path / "Anna's clône (1)"
    for each in (fakes, folder):
        each.mkdir()
    for name, text in (("python3", PYTHON), ("pip", PIP)):
        (fakes / name).write_text(
            text.format(python=shlex.quote(sys.executable), fakes=shlex.quote(str(fakes)))
        )
        (fakes / name).chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    made = Clone(folder, fakes)
    assert made.make("setup") == ""
    assert made.installed == [str(folder)]
    assert made.make("setup") == ""
    assert made.installed == []
    return made


def test_a_moved_clone_makes_its_environment_anew_and_says_so_once(clone: Clone) -> None:
    clone.folder = clone.folder.rename(clone.folder.with_name("moved"))
    assert clone.make("setup") == "Making the environment .venv anew: it is that of another folder\n"
    assert clone.installed == [str(clone.folder)]
    assert clone.make("setup") == ""
    assert clone.installed == []


def test_a_copy_gets_an_environment_of_its_own_and_leaves_the_old_one_alone(
    clone: Clone, tmp_path: Path
) -> None:
    original = clone.folder
    clone.folder = shutil.copytree(original, tmp_path / "copy", symlinks=True)
    (clone.folder / "pyproject.toml").touch()  # as a pull does
    assert "it is that of another folder" in clone.make("setup")
    assert clone.installed == [str(clone.folder)]
    shutil.rmtree(clone.folder)
    clone.folder = original
    assert clone.make("setup") == ""
    assert clone.installed == []


def test_a_pull_that_changes_the_dependencies_keeps_the_environment(clone: Clone) -> None:
    (clone.folder / ".venv" / "kept").touch()
    (clone.folder / "pyproject.toml").touch()
    assert clone.make("setup") == ""
    assert clone.installed == [str(clone.folder)]
    assert (clone.folder / ".venv" / "kept").exists()


@pytest.mark.parametrize(("now", "said"), [(None, "gone"), (OTHER, "3.99")], ids=["gone", "another"])
def test_an_environment_whose_python_is_gone_or_another_one_is_made_anew(
    clone: Clone, now: str | None, said: str
) -> None:
    python = clone.folder / ".venv" / "bin" / "python"
    python.unlink()
    if now is not None:
        python.write_text(now)
        python.chmod(0o755)
    assert clone.make("setup") == f"Making the environment .venv anew: its Python {MINOR} is now {said}\n"
    subprocess.run([python, "-c", ""], check=True)


def test_another_python_that_is_asked_for_is_taken_and_kept(clone: Clone) -> None:
    assert clone.make("setup", "PYTHON=python3") == ""
    text = (clone.folder / ".venv" / "pyvenv.cfg").read_text()
    (clone.folder / ".venv" / "pyvenv.cfg").write_text(text.replace(f"version = {MINOR}", "version = 3.99"))
    old = clone.folder / ".venv" / "bin" / "python"
    old.unlink()
    old.write_text(OTHER)
    old.chmod(0o755)
    assert clone.make("setup") == ""
    said = clone.make("setup", "PYTHON=python3")
    assert said == f"Making the environment .venv anew: it has Python 3.99 instead of {MINOR}\n"


def test_a_python_that_cannot_be_used_costs_no_environment(clone: Clone) -> None:
    command = ["make", "--silent", "setup", "PYTHON=/no/such/python"]
    done = subprocess.run(command, cwd=clone.folder, capture_output=True, text=True)
    assert done.returncode
    assert (clone.folder / ".venv" / "light").exists()
