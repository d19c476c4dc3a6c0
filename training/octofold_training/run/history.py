"""Keeps the reports of a training run as JSON lines, consistent with its state after any interruption."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octofold_game.system.files import appending, write_text

from octofold_training.errors import TrainingError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class History:
    """The reports so far, without those made after the state from which the run resumes.

    `positions` is the position of that state; every report has a field `positions`.
    """

    def __init__(self, file: Path, positions: int, fields: Iterable[str]) -> None:
        """`fields` are those that every report of the run has, besides `positions`.

        Raises:
            TrainingError: the file is damaged, see `read_reports`, or has reports of a run of another kind.
        """
        self._file = file
        reports = read_reports(file)
        for number, report in enumerate(reports, 1):
            if missing := [name for name in fields if name not in report]:
                raise TrainingError(
                    f"{file}:{number}: has no {missing[0]}; a run of another kind needs another --state"
                )
        self.reports = [report for report in reports if report["positions"] <= positions]
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, "".join(json.dumps(report) + "\n" for report in self.reports))

    def append(self, report: DataclassInstance) -> None:
        """Append a report, a dataclass of numbers."""
        self.reports.append(asdict(report))
        with appending(self._file) as opened:
            opened.write(json.dumps(self.reports[-1]) + "\n")


def read_reports(file: Path) -> list[dict[str, Any]]:
    """The reports in a file, without a last line that was cut off; none if there is no file.

    Raises:
        TrainingError: a line is not a report; the message names file and line.
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
