"""Modules that the base install cannot import, and the command that installs what they need."""

import json
import shlex
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

from octofold_client.errors import EvaluationError


def pictures_of(module: str) -> ModuleType:
    """The module of this name, which draws with matplotlib. Raises `EvaluationError` without matplotlib."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "matplotlib").partition(".")[0]
        raise EvaluationError(f"pictures need {missing}: {install('plots')}") from None


def install(extra: str) -> str:
    """How to add an extra to this installation, such as `run .venv/bin/pip install -e '.[plots]'`."""
    pip = Path(sys.executable).with_name("pip")
    program = _shown(pip) if pip.exists() else f"{_shown(Path(sys.executable))} -m pip"
    return f"run {program} install {_source(extra)}"


def _source(extra: str) -> str:
    """What to install: the clone or the file that this installation was made from, else the name."""
    try:
        # The record that pip leaves of anything that came from no index: PEP 610.
        origin = json.loads(distribution("octofold").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    url = urlsplit(str(origin.get("url", "")))
    if url.scheme != "file":
        return shlex.quote(f"octofold[{extra}]")
    path = _shown(Path(unquote(url.path)))
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return editable + shlex.quote(f"{path}[{extra}]")


def _shown(path: Path) -> str:
    """Relative to the folder that people are in, where it lies below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
