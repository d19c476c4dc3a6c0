"""Runs what `octofold-export` was asked to do, and turns its errors into lines and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

from octofold_export.errors import ExportError, NotShown


def run_task(task: Callable[[], Path]) -> int:
    """Run a task, print the folder of the version, and return the exit code of `octofold_export.cli.main`.

    Standard output has the folder alone. What the user's code and libraries print goes to standard error.
    """
    with redirect_stdout(sys.stderr):
        code, folder = _run(task)
    if folder is not None:
        print(folder)
    return code


def report_line(line: str) -> None:
    """Print a finding."""
    print(line, file=sys.stderr, flush=True)


def _run(task: Callable[[], Path]) -> tuple[int, Path | None]:
    """The exit code, and the folder of the version if there is one."""
    try:
        return 0, task()
    except KeyboardInterrupt:
        report_line("octofold-export: interrupted; nothing was published")
        return 130, None
    except ExportError as error:
        report_line(f"octofold-export: {error}")
        return 3 if isinstance(error, NotShown) else 1, None
    except (OSError, MemoryError) as error:  # such as a full folder for temporary files
        report_line(f"octofold-export: {error or 'out of memory'}; nothing was published")
        return 1, None
