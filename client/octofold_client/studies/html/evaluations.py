"""The sections of a report about evaluations: figures, pictures, where games are lost, conditions.

This module needs matplotlib, which is not part of the base installation.
"""

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from octofold_game.drawing.figures import COMPACT, svg_of

from octofold_client.contenders.judges import PROBABILITY
from octofold_client.evaluation.contest import Contest
from octofold_client.evaluation.sides import Side
from octofold_client.evaluation.tables import ASSUMED, INTERVALS, SummaryRow, outgrown_note, rows_of
from octofold_client.provenance import Provenance
from octofold_client.studies.ending_pictures import panels_of
from octofold_client.studies.html.elements import Child, facts, make, named_with_chip, table
from octofold_client.studies.html.games import costly_moves, games_section
from octofold_client.studies.html.results import EvaluationPart
from octofold_client.studies.html.svg import picture
from octofold_client.studies.pictures import overlaid

CAPTIONS = {
    "score-distribution": (
        "How the scores are spread",
        "Each bar is the number of games in a range of scores, colored by the largest tile of these games. "
        "Scores gather in clusters, because most games end while they build their next large tile.",
    ),
    "tiles-reached": (
        "How many games make each tile",
        "Bars are measured, lines are 95% intervals.",
    ),
    "survival-by-move": (
        "How long the games last",
        "The share of the games that are not over after so many moves.",
    ),
    "score-by-move": (
        "How the score grows",
        "The average score after each move, of the games that go on; the band is one standard deviation. "
        "A curve ends where fewer than ten games are left.",
    ),
}
PANELS = {
    "endings": (
        "The boards on which games end",
        "If the other tiles add up to almost as much as the largest tile, the next large tile was near.",
    ),
    "agreement": ("Moves that the judge would make, too", "Lines are 95% intervals."),
    "cost": (
        "What a move costs on average",
        "The judge's value of its own move, less its value of the move that was made.",
    ),
}


def sections(parts: list[EvaluationPart], remarks: Sequence[str] = ()) -> list[ET.Element]:
    """All sections; `remarks` are sentences of the command, in place of the page's own comparisons."""
    finished = [part for part in parts if part.evaluation.summary is not None]
    return [
        _figures(parts, finished, remarks),
        *([_pictures(finished)] if finished else []),
        games_section(parts),
        *(
            _lost(part, index, len(parts) > 1)
            for index, part in enumerate(parts)
            if part.analysis is not None
        ),
        _conditions(parts),
    ]


def _figures(
    parts: list[EvaluationPart], finished: list[EvaluationPart], remarks: Sequence[str]
) -> ET.Element:
    notes = dict.fromkeys([*(remarks or _comparisons(parts)), *_warnings(parts)])  # a comparison warns, too
    return make(
        "section",
        make("h2", "Results"),
        *(make("p.finding", note) for note in notes),
        *([_table(finished), make("p.note", f"{INTERVALS} {ASSUMED}")] if finished else []),
    )


def _table(parts: list[EvaluationPart]) -> ET.Element:
    found = [rows_of(part.summary) for part in parts]
    scores, tiles = [pair[0] for pair in found], [_up_to_reached(pair[1]) for pair in found]
    most = max(map(len, tiles))
    columns = [[*figures, *pair[1][:most]] for figures, pair in zip(scores, found, strict=True)]
    rows: list[Sequence[Child]]
    if len(parts) == 1:
        rows = [
            ("", "measured", "95% interval"),
            *((row.label, row.measured, row.interval) for row in columns[0]),
        ]
    else:
        rows = [("", *(named_with_chip("span", part.name, index) for index, part in enumerate(parts)))]
        rows += [(same[0].label, *map(_with_interval, same)) for same in zip(*columns, strict=True)]
    return table(rows, "Scores and tiles")


def _up_to_reached(tiles: list[SummaryRow]) -> list[SummaryRow]:
    """The rows up to the first tile that no game reached."""
    reached = sum(1 for row in tiles if row.share)
    return tiles[: reached + 1]


def _with_interval(row: SummaryRow) -> Child:
    if not row.interval:
        return row.measured
    return make("span", row.measured, " ", make("span.interval", row.interval))


def _comparisons(parts: list[EvaluationPart]) -> list[str]:
    """Each result compared with the first one, if they have the same games."""
    first, *others = (
        Side(
            part.name,
            part.evaluation.conditions,
            part.folder,
            {game.game: game.score for game in part.evaluation.games},
            part.evaluation.completeness,
        )
        for part in parts
    )
    named = len(others) > 1  # a sentence names only the better one
    return [
        (f"{other.name} and {first.name}: " if named else "") + Contest.of([first, other]).pairs[0].sentence
        for other in others
        if first.conditions.seed == other.conditions.seed and first.scores.keys() & other.scores.keys()
    ]


def _warnings(parts: list[EvaluationPart]) -> list[str]:
    found = []
    for part in parts:
        name = f"{part.name}: " if len(parts) > 1 else ""
        summary = part.evaluation.summary
        if summary is None:
            found.append(name + part.evaluation.completeness.reason)
        elif summary.outgrown_games:
            found.append(name + outgrown_note(summary))
    return found


def _pictures(parts: list[EvaluationPart]) -> ET.Element:
    drawn = overlaid(parts, COMPACT)
    return make(
        "section",
        make("h2", "Pictures"),
        make(
            "div.pictures",
            *(figure(svg_of(drawn[name]), name, title, text) for name, (title, text) in CAPTIONS.items()),
        ),
    )


def figure(svg: bytes, name: str, title: str, text: str) -> ET.Element:
    """A picture with its title above and what it shows below."""
    return make(
        "figure",
        make("h3", title),
        picture(svg, name, f"{title}. {text}"),
        make("figcaption.note", text),
    )


def _lost(part: EvaluationPart, index: int, named: bool) -> ET.Element:
    analysis = part.analysis
    assert analysis is not None
    said = f"The last {analysis.last_moves:,} moves of each of {analysis.games:,} games."
    if analysis.judge is not None and analysis.all.agreement is not None:
        said += f" {analysis.judge.name} would make {analysis.all.agreement:.1%} of these moves, too."
    section = make(
        "section",
        make("h2", f"Where {part.name} loses its games" if named else "Where the games are lost"),
        make("p", said),
        make(
            "div.pictures",
            *(
                figure(svg_of(drawn), f"lost-{index}-{name}", *PANELS[name])
                for name, drawn in panels_of(analysis).items()
                if name != "cost" or (analysis.judge is not None and analysis.judge.unit != PROBABILITY)
            ),
        ),
    )
    # A probability is no cost: a judge that has nothing else only agrees or not.
    if analysis.judge is not None and analysis.judge.unit != PROBABILITY and analysis.costliest:
        section.append(make("h3", "The costliest moves"))
        section.append(costly_moves(part, index, analysis.judge))
    return section


def _conditions(parts: list[EvaluationPart]) -> ET.Element:
    return make(
        "section",
        make("h2", "Conditions"),
        *(_conditions_of(part, len(parts) > 1) for part in parts),
    )


def _conditions_of(part: EvaluationPart, named: bool) -> ET.Element:
    evaluation, conditions = part.evaluation, part.evaluation.conditions
    run = evaluation.run
    rows: list[tuple[str, Child]] = [
        ("player", conditions.player),
        ("games", f"{len(evaluation.games):,}, seed {conditions.seed}"),
        ("SHA-256", make("code", conditions.sha256) if conditions.sha256 else ""),
        ("decision rule", evaluation.decision_rule or ""),
        ("precision", conditions.precision),
        ("octofold-serve", evaluation.server_version or ""),
        ("moves per second", f"{run.moves_per_second:,.0f}" if run and run.moves_per_second else ""),
        ("last game", part.written),
        ("folder", make("code", str(part.folder))),
    ]
    runs: list[Provenance | None] = [*part.runs]
    for each in runs or [None]:
        rows += [
            ("command", make("code", each.command) if each and each.command else "not recorded"),
            ("begun", f"{each.started}, octofold {each.octofold}" if each else "not recorded"),
            ("machine of the client", each.machine if each else "not recorded"),
        ]
    return make("div.conditions", make("h3", part.name) if named else None, facts(rows))
