"""The hint about a missing package is a command that works."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from octofold_game.commands.extras import install_command


def test_the_command_has_the_pip_of_this_environment_and_the_path_of_its_clone(
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
