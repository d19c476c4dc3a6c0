"""The command that installs a missing extra, for a clone or a package."""

from __future__ import annotations

import json
import shlex
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

_FOLDER = "~/octofold-env"
"""Where a Python that belongs to the system gets an environment."""


def install_command(extra: str) -> str:
    """The command that adds an extra of octofold, such as `.venv/bin/pip install -e '.[server]'`."""
    python = Path(sys.executable)
    if sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists():
        # The distribution manages this Python, and its pip installs nothing (PEP 668).
        return f"{shlex.quote(str(python))} -m venv {_FOLDER} && {_FOLDER}/bin/pip install {_source(extra)}"
    pip = python.with_name("pip")
    is_there = pip.exists()
    program = shlex.quote(_from_here(pip if is_there else python)) + " -m pip" * (not is_there)
    return f"{program} install {_source(extra)}"


def _source(extra: str) -> str:
    """The clone that this installation was made from, or the name of the package."""
    try:
        # pip keeps this about whatever came from no index (PEP 610).
        record = distribution("octofold").read_text("direct_url.json")
        origin = json.loads(record or "{}")
    except ValueError:
        origin = {}
    except PackageNotFoundError:
        clone = Path(__file__).parents[3]  # where PYTHONPATH names its sources
        is_clone = (clone / "pyproject.toml").exists()
        origin = {"url": clone.as_uri(), "dir_info": {"editable": True}} if is_clone else {}
    url = urlsplit(origin.get("url", ""))
    if url.scheme != "file":
        return shlex.quote(f"octofold[{extra}]")
    path = shlex.quote(f"{_from_here(Path(unquote(url.path)))}[{extra}]")
    return f"-e {path}" if origin.get("dir_info", {}).get("editable") else path


def _from_here(path: Path) -> str:
    """The path relative to the working directory, if it is below it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
