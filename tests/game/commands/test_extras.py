"""The hint that names what to install is a command that works."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from octofold_game.commands.extras import install_command


def test_the_command_names_this_environments_pip_and_the_clone_that_it_was_made_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    program, install, editable, source = shlex.split(install_command("server"))
    assert (Path(program).is_file(), install, editable) == (True, "install", "-e")
    assert source.endswith("[server]")
    clone = Path(source.removesuffix("[server]"))
    assert 'name = "octofold"' in (clone / "pyproject.toml").read_text()


def test_in_the_clone_the_command_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    assert install_command("plots").endswith("pip install -e '.[plots]'")


def test_a_python_of_the_system_gets_an_environment_because_its_pip_installs_nothing() -> None:
    if (
        not list(Path("/usr/lib").glob("python3*/EXTERNALLY-MANAGED"))
        or not Path("/usr/bin/python3").exists()
    ):
        pytest.skip("no Python here belongs to the system")
    clone = Path(__file__).parents[3]
    program = "from octofold_game.commands.extras import install_command; print(install_command('ray'))"
    done = subprocess.run(
        ["/usr/bin/python3", "-c", program],
        cwd="/",
        env={"PYTHONPATH": str(clone / "game")},
        capture_output=True,
        text=True,
        check=True,
    )
    make, _, install = done.stdout.strip().partition(" && ")
    assert make == "/usr/bin/python3 -m venv ~/octofold-env"
    source = f"{clone}[ray]".removeprefix("/")
    assert shlex.split(install) == ["~/octofold-env/bin/pip", "install", "-e", source]
