"""The reports of a run in the forms of other programs: CSV for spreadsheets, events for TensorBoard."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from octofold_game.system.files import naming, whole_file

Report = Mapping[str, Any]


def write_csv(reports: Sequence[Report], file: Path) -> None:
    """Write reports as rows, with the names of their fields on top; None is an empty cell."""
    if not reports:
        return
    with whole_file(file) as partial, partial.open("w", newline="", encoding="utf-8") as opened:
        rows = csv.DictWriter(opened, list(reports[-1]), extrasaction="ignore", restval="")
        rows.writeheader()
        rows.writerows(reports)


def by_epoch(reports: Sequence[Report]) -> list[Report]:
    """One report for each epoch: loss and accuracy averaged over its positions, all else as at its end.

    No report may reach over the end of an epoch.
    """
    found: list[Report] = []
    before = 0
    for number, group in groupby(reports, lambda report: math.ceil(report["epoch"])):
        parts = list(group)
        sizes = [end - start for start, end in pairwise([before, *(part["positions"] for part in parts)])]
        weighted = {
            name: sum(part[name] * size for part, size in zip(parts, sizes, strict=True))
            for name in ("loss", "accuracy")
        }
        averages = {name: round(total / sum(sizes), 5) for name, total in weighted.items()}
        found.append({**parts[-1], "epoch": number, **averages})
        before = parts[-1]["positions"]
    return found


@contextmanager
def tensorboard_events(folder: Path, reports: Sequence[Report]) -> Iterator[Callable[[Report], None]]:
    """A function that adds a report to `folder` for TensorBoard; the step is the position.

    The events there are replaced by those of the reports so far.
    """
    # Only now: it loads slowly, and most commands do without. Its SummaryWriter has a thread and a queue, on
    # which Ctrl-C could leave a lock; its writer of events has neither.
    from tensorboardX.event_file_writer import EventsWriter
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.summary import scalar

    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("events.out.tfevents.*"):
        old.unlink()
    writer = EventsWriter(str(folder / "events"), "")

    def add(report: Report) -> None:
        for name, value in report.items():
            if isinstance(value, int | float) and name not in ("positions", "seconds"):
                event = Event(wall_time=report["seconds"], step=report["positions"])
                event.summary.CopyFrom(scalar(name, value))
                writer.write_event(event)
        with naming(folder):
            writer.flush()

    try:
        for report in reports:
            add(report)
        yield add
    finally:
        with naming(folder):  # it writes what could not be written before
            writer.close()
