"""Finds the shell command that installs a missing extra, in a clone or from a package index."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit


def install_command(extra: str) -> str:
    """Return the command that adds an extra of octofold, such as `.venv/bin/pip install -e '.[server]'`."""
    python = Path(sys.executable)
    pip = python.with_name("pip")
    program = shlex.quote(_from_here(pip if pip.exists() else python)) + " -m pip" * (not pip.exists())
    return f"{program} install {_source(extra)}"


def _source(extra: str) -> str:
    """Return the argument of `pip install`: the clone that octofold comes from, or the package's name."""
    try:
        # pip records the origin of packages that do not come from an index (PEP 610).
        record = distribution("octofold").read_text("direct_url.json")
        origin = json.loads(record or "{}")
    except (ValueError, PackageNotFoundError):
        origin = {}
    url = urlsplit(origin.get("url", ""))
    if url.scheme != "file":
        return shlex.quote(f"octofold[{extra}]")
    path = shlex.quote(f"{_from_here(Path(unquote(url.path)))}[{extra}]")
    return f"-e {path}" if origin.get("dir_info", {}).get("editable") else path


def _from_here(path: Path) -> str:
    """Return a path inside the working directory as a relative path, and other paths unchanged."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
