"""Assembles the HTML report: one file that loads no other file and sends no request.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree as ET

from octofold_game.drawing.palette import SERIES
from octofold_game.drawing.viewer import viewer_files
from octofold_game.drawing.viewer.script import in_one
from octofold_game.system.files import write_text

from octofold_client.evaluation.contest import Contest
from octofold_client.provenance import Provenance
from octofold_client.studies.html.elements import facts, html, make, raw
from octofold_client.studies.html.parts import EvaluationPart
from octofold_client.studies.html.sections import run_facts, sections_of
from octofold_client.wording import counted

_MOST_NAMED = 3
"""Maximum number of results that the title names."""
STYLES = ("base.css", "tiles.css", "board.css", "viewer.css")
"""Style sheets that the report shares with the page of `octofold-serve`."""


def write_report(file: Path, parts: Sequence[EvaluationPart], contest: Contest | None = None) -> None:
    """Write the report of evaluations and, if `contest` is given, of their comparison.

    Raises:
        OSError: the file cannot be written.
    """
    names = [part.name for part in parts]
    title = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    if len(names) > _MOST_NAMED:
        title = f"{len(names)} results"
    said = f"{counted(sum(len(part.evaluation.games) for part in parts), 'finished game')}"
    viewer = viewer_files()
    style, script = _style(viewer), in_one({**viewer, "report.js": _static("report.js")}, "report.js")
    body = make(
        "body",
        make("a.skip", "Skip to the results", href="#main"),
        make("header", make("p.brand", "Octofold"), make("h1", title), make("p.note", said)),
        make("main", *sections_of(parts, contest), id="main", tabindex="-1"),
        make("footer", make("h2", "This report"), facts(run_facts(Provenance.now()))),
        raw("script", script),
    )
    write_text(file, html(_head(title, style, script), body))


def _head(title: str, style: str, script: str) -> ET.Element:
    policy = (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return make(
        "head",
        make("meta", charset="utf-8"),
        make("meta", http_equiv="Content-Security-Policy", content=policy),
        make("meta", name="viewport", content="width=device-width, initial-scale=1"),
        make("meta", name="color-scheme", content="light dark"),
        make("meta", name="referrer", content="no-referrer"),
        make("title", f"{title} - Octofold"),
        make("link", rel="icon", href="data:,"),  # otherwise a browser would request an icon
        raw("style", style),
    )


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _style(viewer: Mapping[str, str]) -> str:
    series = (f".series-{n} {{ background: {color}; }}" for n, color in enumerate(SERIES))
    return "\n".join(["", *(viewer[name] for name in STYLES), *series, _static("report.css")])


def _static(name: str) -> str:
    return (files("octofold_client.studies.html") / "static" / name).read_text(encoding="utf-8")
