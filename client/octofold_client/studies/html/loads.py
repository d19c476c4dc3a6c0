"""The sections of a report about load tests: figures, pictures, conditions.

This module needs matplotlib, which is not part of the base installation.
"""

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from octofold_game.drawing.figures import COMPACT, svg_of

from octofold_client.loadtest.pictures import overlaid
from octofold_client.loadtest.result import LATENCIES, SPLIT, latency_rows, remarks, split_rows
from octofold_client.studies.html.elements import Child, facts, make, table
from octofold_client.studies.html.evaluations import figure
from octofold_client.studies.html.results import LoadPart
from octofold_client.wording import counted

CAPTIONS = {
    "latency-against-rate": (
        "Latency under load",
        "A number at a point is the number of callers that each wait for an answer before they ask again.",
    ),
    "latency-percentiles": (
        "How slow the slowest calls are",
        "Each nine of the horizontal axis is ten times as rare as the one before.",
    ),
}
_SEVERAL = " With several tests, each shows its highest load here."


def sections(parts: list[LoadPart]) -> list[ET.Element]:
    """All sections."""
    drawn = overlaid({part.name: part.test for part in parts}, COMPACT)
    figures = []
    for name, (title, text) in CAPTIONS.items():
        more = _SEVERAL if len(parts) > 1 and name == "latency-percentiles" else ""
        figures.append(figure(svg_of(drawn[name]), name, title, text + more))
    return [
        make("section", make("h2", "Throughput and latency"), make("div.pictures", *figures)),
        *(_figures(part, len(parts) > 1) for part in parts),
        make(
            "section",
            make("h2", "Conditions of the load"),
            *(_conditions(part, len(parts) > 1) for part in parts),
        ),
    ]


def _figures(part: LoadPart, named: bool) -> ET.Element:
    return make(
        "section",
        make("h2", part.name if named else "Every load"),
        *(make("p.finding", remark) for remark in remarks(part.test)),
        table(_cells(latency_rows(part.test)), LATENCIES),
        table(_cells(split_rows(part.test)), SPLIT),
    )


def _cells(rows: list[list[str]]) -> Sequence[Sequence[Child]]:
    return rows


def _conditions(part: LoadPart, named: bool) -> ET.Element:
    test, run = part.test, part.test.run
    rows: list[tuple[str, Child]] = [
        ("model", f"{test.model} version {test.version}"),
        ("precision", test.precision),
        ("SHA-256", make("code", test.sha256) if test.sha256 else ""),
        ("octofold-serve", test.server_version or ""),
        ("server", test.target),
        ("calls", f"{test.form}, {counted(test.boards_a_call, 'board')} each"),
        ("boards", test.boards_from),
        ("client processes", f"{test.processes:,}"),
        ("written", part.written),
        ("folder", make("code", str(part.folder))),
        ("command", make("code", run.command) if run else "not recorded"),
        ("begun", f"{run.started}, octofold {run.octofold}" if run else "not recorded"),
        ("machine of the client", run.machine if run else "not recorded"),
    ]
    return make("div.conditions", make("h3", part.name) if named else None, facts(rows))
