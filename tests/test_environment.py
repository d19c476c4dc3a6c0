"""Make renews the environment of a clone that was moved or copied, or whose Python has changed.

The rules of the Makefile run with a real virtual environment; nothing is installed into it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MINOR = "{}.{}".format(*sys.version_info[:2])
OF_OUTER_MAKE = {"MAKEFLAGS", "MAKEOVERRIDES", "PYTHON", "SERVER", "VENV"}


def make(folder: Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in OF_OUTER_MAKE}
    command = ["make", "--silent", "setup", "PIP=true", f"PYTHON={python}"]
    return subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True)


def made(folder: Path) -> str:
    """Make the environment; return the output without the lines about packages."""
    done = make(folder)
    assert done.returncode == 0, done.stderr
    return "".join(line for line in done.stdout.splitlines(True) if not line.startswith("Installing "))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with an environment, in a folder whose name shells and make could misread."""
    folder = tmp_path / "Anna's clône (1)"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    assert made(folder) == ""
    (folder / ".venv" / "kept").touch()
    return folder


def test_moving_a_clone_renews_its_environment_and_a_pull_keeps_it(clone: Path) -> None:
    (clone / "pyproject.toml").touch()  # like a pull that changes the dependencies
    assert made(clone) == ""
    assert (clone / ".venv" / "kept").exists()
    moved = clone.rename(clone.with_name("moved"))
    assert made(moved) == "Making the environment .venv anew: it is that of another folder\n"
    assert not (moved / ".venv" / "kept").exists()
    assert made(moved) == ""


def test_an_environment_without_its_python_is_renewed_and_a_wrong_python_removes_nothing(
    clone: Path,
) -> None:
    assert make(clone, "/no/such/python").returncode
    assert (clone / ".venv" / "kept").exists()
    python = clone / ".venv" / "bin" / "python"
    python.unlink()
    assert made(clone) == f"Making the environment .venv anew: its Python {MINOR} is now gone\n"
    subprocess.run([python, "-c", ""], check=True)
