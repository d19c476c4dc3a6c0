"""The code works with other versions of Python and gRPC than those of the environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")
INSTALL = ("install", "--no-compile")  # one game imports only a small part of the packages
CONSTRAINTS = ("--constraint", str(ROOT / "constraints.txt"))
REQUIREMENTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
GRPCIO = next(each for each in map(Requirement, REQUIREMENTS) if each.name == "grpcio")
OLDEST = next(each.version for each in GRPCIO.specifier if each.operator == ">=")
OF_BOTH_TRANSPORTS = (
    "tests/server/grpc_transport/test_transports.py",
    "tests/server/grpc_transport/test_transport_choice.py",
    "tests/server/protocols/test_octofold_v1.py",
)


def run(command: Sequence[str | Path], folder: Path, **more: str) -> str:
    """Run a command that must succeed; return its output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    done = subprocess.run(command, cwd=folder, env={**kept, **more}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pythons(minor: int) -> Iterator[str]:
    """Return programs that may be Python 3.`minor`, on the PATH and from pyenv."""
    if found := shutil.which(f"python3.{minor}"):
        yield found
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from map(str, sorted(root.glob(f"versions/3.{minor}.*/bin/python")))


@pytest.mark.parametrize("minor", [12, 13, 14, 15], ids="3.{}".format)
def test_the_wheel_installs_and_plays_a_game(minor: int, repository: Path, tmp_path: Path) -> None:
    if sys.version_info[1] == minor:
        pytest.skip("all other tests run with this one")
    for python in pythons(minor):
        made = subprocess.run([python, "-m", "venv", tmp_path / "env"], capture_output=True)
        if made.returncode == 0:  # a program of pyenv may be for a version that is not active
            break
    else:
        pytest.skip(f"no Python 3.{minor} here")
    pip = (str(tmp_path / "env" / "bin" / "python"), *PIP)
    run([*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, ROOT], tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    run([*pip, *INSTALL, *CONSTRAINTS, f"{wheel}[server]"], tmp_path)
    octofold = tmp_path / "env" / "bin" / "octofold"
    said = run([octofold, "play", "--games", "1", "--models", repository], tmp_path)
    assert "**small version 1: 1 game, seed 0**" in said


@pytest.mark.parametrize("wanted", [f"=={OLDEST}", f">={OLDEST}"], ids=["oldest", "newest"])
def test_both_transports_pass_their_tests_with_the_oldest_and_the_newest_grpcio(
    wanted: str, tmp_path: Path
) -> None:
    run([sys.executable, *PIP, *INSTALL, "--no-deps", "--target", tmp_path, f"grpcio{wanted}"], tmp_path)
    if (tmp_path / f"grpcio-{version('grpcio')}.dist-info").exists():
        pytest.skip("all other tests run with this one")
    pytest_of_them = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *OF_BOTH_TRANSPORTS]
    assert " passed" in run([*pytest_of_them, "--numprocesses", "2"], ROOT, PYTHONPATH=str(tmp_path))
