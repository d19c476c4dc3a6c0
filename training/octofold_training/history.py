"""Keeps the reports of a training run as JSON lines, consistent with its state after any interruption."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octofold_game.files import write_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class History:
    """The reports so far, without those made after the state from which the run resumes.

    `positions` is the position of that state; every report has a field `positions`.
    """

    def __init__(self, file: Path, positions: int) -> None:
        self._file = file
        *lines, _cut_off = file.read_text().split("\n") if file.exists() else [""]
        self.reports: list[dict[str, Any]] = [
            report for line in lines if (report := json.loads(line))["positions"] <= positions
        ]
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, "".join(json.dumps(report) + "\n" for report in self.reports))

    def append(self, report: DataclassInstance) -> None:
        """Append a report, a dataclass of numbers."""
        self.reports.append(asdict(report))
        with self._file.open("a") as opened:
            opened.write(json.dumps(self.reports[-1]) + "\n")
