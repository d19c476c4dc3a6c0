"""The gate of strength: a new version plays against the published one before it may be published.

The games are played and judged by the command `octofold`, which serves both versions. The export imports
neither the server nor the client.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from octofold_game.extras import install_command
from octofold_game.model import CARD_FILE

from octofold_export.errors import ExportError, GateError
from octofold_export.publishing.versions import Content

RESULTS = Path("results")
"""Parent of the folders with the games, as for `octofold`."""
_NOT_SHOWN = 3
"""Exit code of `octofold compare` if the new version is worse, or if the games did not decide it."""


@dataclass(frozen=True)
class Contest:
    """What the new version must show."""

    margin: str
    """Such as "2%"."""
    limit: int
    """Maximum number of games of each version."""


def newest_published(models: Path, name: str) -> int | None:
    """The newest version of a model; None if it has none."""
    cards = (models / name).glob(f"*/{CARD_FILE}")
    versions = [int(card.parent.name) for card in cards if card.parent.name.isdecimal()]
    return max(versions, default=None)


def hold(
    contest: Contest,
    models: Path,
    name: str,
    version: int,
    files: Mapping[str, Content],
    report: Callable[[str], None],
) -> None:
    """Play the new version against the newest published one, until the games show that it is no worse.

    The games are kept in a folder of `results`; if the same export runs again, they continue.

    Raises:
        GateError: the new version is worse, or the games did not decide it.
        ExportError: the games could not be played.
    """
    published = newest_published(models, name)
    if published is None:
        report(f"strength: {name} has no published version to play against")
        return
    digest = hashlib.sha256(files[CARD_FILE]).hexdigest()[:8]
    out = RESULTS / f"export-{name}-v{version}-{digest}"
    report(f"strength: version {version} plays against version {published}; the games are kept in {out}")
    with tempfile.TemporaryDirectory(prefix="octofold-contest-") as folder:
        staged = Path(folder) / name
        _stage(staged / str(version), files)
        (staged / str(published)).symlink_to((models / name / str(published)).resolve())
        sentence = _compare(contest, Path(folder), name, published, version, out)
    report(f"strength: {sentence}")


def _stage(folder: Path, files: Mapping[str, Content]) -> None:
    try:
        folder.mkdir(parents=True)
        for file, content in files.items():
            (folder / file).write_bytes(content)
    except OSError as error:
        raise ExportError(f"{folder}: {error.strerror}") from error


def _compare(contest: Contest, models: Path, name: str, published: int, version: int, out: Path) -> str:
    """Run `octofold compare` and return its sentence."""
    program = Path(sys.executable).with_name("octofold")
    command = [str(program), "compare", f"{name}:{published}", f"{name}:{version}", "--models", str(models)]
    command += ["--no-worse-than", contest.margin, "--limit", str(contest.limit), "--out", str(out), "--json"]
    # The variables of a server may name models and versions of another repository.
    serving = {"OCTOFOLD_VERSIONS": "all", "OCTOFOLD_DEFAULT_MODEL": name}
    try:
        code, output = _run(command, os.environ | serving)
    except FileNotFoundError:
        raise ExportError(f"{program} is missing: run {install_command('server')}") from None
    if code not in (0, _NOT_SHOWN):
        raise ExportError(
            f"octofold compare ended with exit code {code}, so the strength is unknown; nothing was published"
        )
    sentence = _sentence(output)
    if code == _NOT_SHOWN:
        raise GateError(f"nothing was published: {sentence}")
    return sentence


def _run(command: list[str], environment: Mapping[str, str]) -> tuple[int, bytes]:
    """Run the command, and return its exit code and what it prints; Ctrl-C or SIGTERM ends it, too."""
    previous = signal.signal(signal.SIGTERM, _exit)
    try:
        # In a new session, Ctrl-C reaches only this program, which then lets the other one keep its games.
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate()
        except BaseException:
            process.terminate()
            process.communicate()
            raise
        return process.returncode, output
    finally:
        signal.signal(signal.SIGTERM, previous)


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _sentence(output: bytes) -> str:
    try:
        sentence = json.loads(output)["pairs"][0]["sentence"]
    except (ValueError, LookupError, TypeError) as error:
        raise ExportError(f"octofold compare printed something else than its result: {error!r}") from error
    return str(sentence)
