"""The folder of a run: its lock, which only one process can hold, and its reports as JSON lines."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octofold_game.system.files import appending, why_not_writable, write_text

from octofold_training.errors import TrainingError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@contextmanager
def exclusive_folder(folder: Path, name: Path | None = None) -> Iterator[None]:
    """Create `folder` if missing, and lock it, since two processes would mix their states and histories.

    The lock ends when the process ends, even by a crash. If the caller renames `folder` later, `name` is
    its later name, for the error.

    Raises:
        TrainingError: another process holds the lock, or the folder cannot be written.
    """
    if reason := why_not_writable(folder):
        raise TrainingError(reason)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            reason = "another process is working in this folder; stop it, or name another folder"
            raise TrainingError(f"{name or folder}: {reason}") from None
        yield


class History:
    """The reports of a run. If a run resumes from a state, reports after this state are dropped.

    `positions` is the number of positions of the state. Every report has a field `positions`, too.
    """

    def __init__(self, file: Path, positions: int, fields: Iterable[str]) -> None:
        """Read the reports. `fields` are the fields that every report of the run has besides `positions`.

        Raises:
            TrainingError: the file is damaged, see `read_reports`, or has reports of another kind of run.
        """
        self._file = file
        reports = read_reports(file)
        for number, report in enumerate(reports, 1):
            if missing := [name for name in fields if name not in report]:
                raise TrainingError(
                    f"{file}:{number} has no {missing[0]}: the report is from another kind of run; "
                    "name another --state"
                )
        self.reports = [report for report in reports if report["positions"] <= positions]
        write_text(file, "".join(json.dumps(report) + "\n" for report in self.reports))

    def append(self, report: DataclassInstance) -> None:
        """Append a report to the file. The report is a dataclass of numbers."""
        self.reports.append(asdict(report))
        with appending(self._file) as opened:
            opened.write(json.dumps(self.reports[-1]) + "\n")


def read_reports(file: Path) -> list[dict[str, Any]]:
    """Return the reports in a file, without a truncated last line; no reports if the file is missing.

    Raises:
        TrainingError: a line is not a report. The message names file and line.
    """
    *lines, _cut_off = file.read_text("utf-8", "replace").split("\n") if file.exists() else [""]
    reports = []
    for number, line in enumerate(lines, 1):
        try:
            report = json.loads(line)
        except (ValueError, RecursionError):
            report = None
        if not isinstance(report, dict) or not isinstance(report.get("positions"), int):
            raise TrainingError(f"{file}:{number}: not a report of a run; delete the line")
        reports.append(report)
    return reports
