"""Records where results come from: the command, the machine and the time of each run.

The file `runs.jsonl` of a result folder has one line for each run that added games, because an evaluation may
continue on another machine. Result folders of older versions of Octofold lack the file.
"""

import platform
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec
from octofold_game.system.files import appending, read_regular
from octofold_game.system.processors import cpu_name, usable_cores

RUNS_FILE = "runs.jsonl"
_MAX_BYTES = 1 << 20
_MAX_RUNS = 50


@dataclass(frozen=True)
class Provenance:
    """The command, machine, time and version of one run."""

    command: str
    """The command line; empty if a program called the library."""
    machine: str
    """The machine that ran the command; the server may run on another machine."""
    started: str
    """Date and time, such as `2026-11-22 13:37 UTC`."""
    octofold: str
    """Version of Octofold."""

    @classmethod
    def now(cls, *, command: bool = True) -> "Provenance":
        """Return the provenance of a run that begins now.

        `command` is True if a command line started the run, and False if a program called the library.
        """
        return cls(
            command=command_line() if command else "",
            machine=machine(),
            started=format_utc(datetime.now(UTC)),
            octofold=version("octofold"),
        )

    def append(self, folder: Path) -> None:
        """Append the run to the file `runs.jsonl` of a result folder.

        Raises:
            OSError: the file cannot be written; the error names it.
        """
        with appending(folder / RUNS_FILE) as file:
            file.write(msgspec.json.encode(self).decode() + "\n")


@contextmanager
def record_run(folder: Path, *, command: bool = True) -> Iterator[None]:
    """Record the block as a run if it changes a replay file of the folder, even if it fails afterwards.

    Raises:
        OSError: the run cannot be recorded. An error of the block takes precedence.
    """
    run, before = Provenance.now(command=command), _replay_files(folder)

    def add() -> None:
        if _replay_files(folder) != before:
            run.append(folder)

    try:
        yield
    except BaseException:
        with suppress(OSError):  # raise the error of the block instead
            add()
        raise
    add()


def _replay_files(folder: Path) -> list[tuple[int, int]]:
    """Return size in bytes and modification time in nanoseconds of each replay file in the folder."""
    found = (file.stat() for file in sorted(folder.glob("*.replay")))
    return [(status.st_size, status.st_mtime_ns) for status in found]


def runs_of(folder: Path) -> list[Provenance]:
    """Return the last runs of a folder, at most 50, oldest first; none without a readable file."""
    try:
        lines = read_regular(folder / RUNS_FILE, _MAX_BYTES).splitlines()
    except OSError:
        return []
    found = []
    for line in lines[-_MAX_RUNS:]:
        with suppress(ValueError, RecursionError):  # the line is damaged, or cut off by a full disk
            found.append(msgspec.json.decode(line, type=Provenance))
    return found


def format_utc(moment: datetime) -> str:
    """Format a time, which must be in UTC, to the minute."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def command_line() -> str:
    """Return the running command as a user would type it."""
    program, *arguments = sys.argv or ["octofold"]
    return shlex.join([Path(program).name, *arguments])


def machine() -> str:
    """Describe the processor, the usable cores, the system and Python's version."""
    cores = usable_cores()
    system = f"{platform.system()} {platform.release()}"
    plural = "" if cores == 1 else "s"
    processor = cpu_name(platform.processor() or platform.machine() or "unknown processor")
    return f"{processor}, {cores} core{plural}, {system}, Python {platform.python_version()}"
