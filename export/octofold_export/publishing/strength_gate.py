"""Plays a new version against the newest published one, before the new version is published.

`octofold compare` serves both versions, plays the games and decides. The export imports neither the server
nor the client.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from octofold_game.commands.extras import install_command
from octofold_game.contract.model import CARD_FILE, NoWorse
from octofold_game.contract.results import (
    COMPARISON_SCHEMA,
    NO,
    RESULTS,
    UNDECIDED,
    ComparedPair,
    ComparisonFile,
    read_result,
)
from octofold_game.contract.structures import StructureError

from octofold_export.errors import ExportError, StrengthNotShown
from octofold_export.flags import Flags
from octofold_export.publishing.repository import Content

_RUN_UNTIL_INPUT_ENDS = (
    f"import sys; from {__name__} import run_until_input_ends; sys.exit(run_until_input_ends(sys.argv[1:]))"
)
"""Python code of a process that runs `octofold compare`, and stops it when the export ends."""


def _newest_published(models: Path, name: str) -> int | None:
    """Return the number of the newest version of a model; None if the model has no version."""
    cards = (models / name).glob(f"*/{CARD_FILE}")
    versions = [int(card.parent.name) for card in cards if card.parent.name.isdecimal()]
    return max(versions, default=None)


def play_against_newest(
    flags: Flags, version: int, files: Mapping[str, Content], report: Callable[[str], None]
) -> NoWorse | None:
    """Play the new version against the newest published one, until the games decide or reach --limit.

    The games are kept in a folder below `results`; if the same export runs again, it continues them.

    Returns:
        The figures of the games; None if no version is published.

    Raises:
        StrengthNotShown: the new version is worse, or the games did not decide.
        ExportError: the games could not be played.
    """
    models, name = flags.models, flags.name
    published = _newest_published(models, name)
    if published is None:
        report(f"strength: {name} has no published version to play against")
        return None
    digest = hashlib.sha256(files[CARD_FILE]).hexdigest()[:8]
    out = RESULTS / f"export-{name}-v{version}-{digest}"
    report(f"strength: version {version} plays against version {published}; the games are kept in {out}")
    with tempfile.TemporaryDirectory(prefix="octofold-contest-") as folder:
        staged = Path(folder) / name
        _stage(staged / str(version), files)
        (staged / str(published)).symlink_to((models / name / str(published)).resolve())
        started = time.monotonic()
        sentence, shown = _compare(flags, Path(folder), published, version, out)
    report(f"strength: {sentence}")
    if shown.worth is not None:
        minutes = (time.monotonic() - started) * (shown.worth - 1) / 60
        report(
            f"strength: correcting for the luck of the tiles with the values of {shown.values} made a game "
            f"count as {shown.worth:.1f} games, which saved about {max(0.0, minutes):,.1f} minutes"
        )
    return shown


def _stage(folder: Path, files: Mapping[str, Content]) -> None:
    try:
        folder.mkdir(parents=True)
        for file, content in files.items():
            (folder / file).write_bytes(content)
    except OSError as error:
        raise ExportError(f"{folder}: {error.strerror}") from error


def _compare(flags: Flags, staged: Path, published: int, version: int, out: Path) -> tuple[str, NoWorse]:
    """Run `octofold compare`; return its result as a sentence and as figures."""
    assert flags.no_worse_than is not None
    name = flags.name
    program = Path(sys.executable).with_name("octofold")
    command = [str(program), "compare", f"{name}:{published}", f"{name}:{version}", "--models", str(staged)]
    margin = f"{float(100 * flags.no_worse_than):.6f}%"
    command += ["--no-worse-than", margin, "--limit", str(flags.limit), "--out", str(out), "--json"]
    # Environment variables of a server may name other models and versions, so they are replaced. The n-tuple
    # network in the model repository measures luck.
    serving = {
        "OCTOFOLD_VERSIONS": "all",
        "OCTOFOLD_DEFAULT_MODEL": name,
        "OCTOFOLD_MODELS": str(flags.models),
    }
    if not program.exists():
        raise ExportError(f"{program} is missing: run {install_command('server')}")
    code, output = _run(command, os.environ | serving)
    if code not in (0, UNDECIDED, NO):
        raise ExportError(
            f"octofold compare ended with exit code {code}, so the strength is unknown; nothing was published"
        )
    try:
        result = read_result(output, ComparisonFile, (COMPARISON_SCHEMA,))
    except StructureError as error:
        raise ExportError(f"octofold compare did not print its result as JSON: {error}") from error
    (pair,) = result.pairs
    if code:
        raise StrengthNotShown(f"nothing was published: {pair.sentence}")
    return pair.sentence, _figures(result, pair, published)


def _run(command: list[str], environment: Mapping[str, str]) -> tuple[int, bytes]:
    """Run the command; return its exit code and its output. The command ends when this program ends."""
    # In a session of its own, the command does not get Ctrl-C, so that it can keep its games. Its standard
    # input is a pipe from this program, which closes even if this program is killed.
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _RUN_UNTIL_INPUT_ENDS, *command],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        output = process.stdout.read()
    finally:
        process.communicate()  # closes the pipe, which ends games that still run, and waits
    return process.returncode, output


def run_until_input_ends(command: Sequence[str]) -> int:
    """Run a command and return its exit code; if standard input ends first, stop the command by SIGTERM."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def end_with_input() -> None:
        while os.read(0, 4096):
            pass
        process.terminate()

    threading.Thread(target=end_with_input, daemon=True).start()
    code = process.wait()
    return code if code >= 0 else 128 - code  # as a shell reports a signal


def _figures(result: ComparisonFile, pair: ComparedPair, published: int) -> NoWorse:
    bets, question, interval = pair.bets, result.question, pair.ratio_interval
    assert bets is not None
    assert question is not None
    assert interval is not None
    assert pair.ratio is not None
    assert pair.limit_error_rate is not None
    return NoWorse(
        than=published,
        margin=question.margin,
        games=pair.games[1],
        cap=bets.cap,
        above_cap=bets.above_cap,
        ratio=pair.ratio,
        ratio_interval=interval,
        limit_error_rate=pair.limit_error_rate,
        values=bets.values,
        values_sha256=bets.sha256,
        worth=bets.worth,
    )
