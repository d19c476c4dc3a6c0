"""Assembles the HTML report: one file that loads no other file and sends no request.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from octofold_game.drawing.figures import COMPACT, svg_of
from octofold_game.drawing.palette import SERIES
from octofold_game.drawing.viewer import viewer_files
from octofold_game.drawing.viewer.script import bundle
from octofold_game.episodes import Episode
from octofold_game.replays import FILE_HEADER, record_of
from octofold_game.rules import MOVE_NAMES
from octofold_game.system.files import write_text

from octofold_client.contenders.judges import PROBABILITY
from octofold_client.evaluation.contest import Contest
from octofold_client.evaluation.contest_report import league_rows, pair_rows, sentences
from octofold_client.evaluation.report import ASSUMPTIONS, INTERVAL_METHODS, rows_of, warnings_of
from octofold_client.provenance import Provenance
from octofold_client.studies.analysis import CostlyMove, JudgeName
from octofold_client.studies.html.elements import Child, facts, html, make, picture, raw, table
from octofold_client.studies.html.parts import COSTLY_MOVES, EvaluationPart
from octofold_client.studies.pictures import comparison, figures, lost_games, luck_picture
from octofold_client.wording import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    style, script = _style(viewer), bundle({**viewer, "report.js": _read_static("report.js")}, "report.js")
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
        f"default-src 'none'; style-src {_csp_hash(style)}; script-src {_csp_hash(script)}; img-src data:; "
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


def _csp_hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _style(viewer: Mapping[str, str]) -> str:
    series = (f".series-{n} {{ background: {color}; }}" for n, color in enumerate(SERIES))
    return "\n".join(["", *(viewer[name] for name in STYLES), *series, _read_static("report.css")])


def _read_static(name: str) -> str:
    return (files("octofold_client.studies.html") / "static" / name).read_text(encoding="utf-8")


CAPTIONS = {
    "comparison": (
        "Averages and differences",
        "Points are averages of players and, below, differences between the better and the other player of "
        "each pair. Lines are 95% intervals. The intervals of the differences are simultaneously valid. If "
        "the interval of a difference contains 0, either player may be the better one.",
    ),
    "score-distribution": (
        "Distribution of scores",
        "Each bar is the number of games in a range of scores, colored by the largest tile of these games. "
        "Scores gather in clusters, because most games end while they build their next large tile.",
    ),
    "tiles-reached": ("Games that reach each tile", "Bars are measured shares, lines are 95% intervals."),
    "luck": (
        "The luckiest and the unluckiest games",
        "The expected score of every game begins at the same value and ends at the score of the game. Luck "
        "is the sum of the changes by new tiles, compared with the mean over all possible tiles. The other "
        "changes are due to the moves. Triangles mark the luckiest (▲) and the unluckiest (▼) tile.",
    ),
    "endings": (
        "Final boards of the games",
        "If the other tiles add up to almost as much as the largest tile, the next large tile was near.",
    ),
    "agreement": (
        "Agreement with the judge",
        "Points are the shares of moves that the judge would also make. Lines are 95% intervals.",
    ),
    "cost": (
        "Average cost of a move",
        "The judge's value of its own move, minus its value of the move that was made.",
    ),
}
"""Title and explanation of each picture."""
KEYS = (("←", "→"), "one move"), (("page up", "page down"), "10 moves"), (("home", "end"), "start and end")


def sections_of(parts: Sequence[EvaluationPart], contest: Contest | None) -> list[ET.Element]:
    """Return the sections about the evaluations and their comparison, if any."""
    drawn = figures([(part.name, part.evaluation) for part in parts], COMPACT)
    several = len(parts) > 1
    return [
        _results(parts, contest),
        *([make("section", make("h2", "Pictures"), _pictures(drawn))] if drawn else []),
        *(_luck(part, several) for part in parts if part.by_luck and part.evaluation.summary),
        _games(parts),
        *(_losses(part, index, several) for index, part in enumerate(parts) if part.analysis),
        make("section", make("h2", "Conditions"), *(_conditions(part, several) for part in parts)),
    ]


def _pictures(drawn: "dict[str, Figure]") -> ET.Element:
    captions = ((svg_of(figure), *CAPTIONS[name]) for name, figure in drawn.items())
    return make("div.pictures", *(picture(*each) for each in captions))


def _results(parts: Sequence[EvaluationPart], contest: Contest | None) -> ET.Element:
    said = [] if contest is None else sentences(contest)
    notes = [
        make("p.finding", note) for note in dict.fromkeys([*said, *_warnings(parts)]) if note != ASSUMPTIONS
    ]
    section = make("section", make("h2", "Results"))
    is_league = contest is not None and len(contest.pairs) > 1
    if is_league:
        assert contest is not None
        section.extend(_league(contest, parts))
    else:
        section.extend(notes)
        if contest is not None and len(pair_rows(contest)) > 1:
            section.append(_pictures({"comparison": comparison(contest)}))
    if any(part.evaluation.summary for part in parts):
        section.extend([_table(parts), make("p.note", f"{INTERVAL_METHODS} {ASSUMPTIONS}")])
    section.extend(notes if is_league else [])
    return section


def _league(contest: Contest, parts: Sequence[EvaluationPart]) -> list[ET.Element]:
    """Return the league table, the forest plot and the table of differences."""
    colors = {part.folder: index for index, part in enumerate(parts)}
    head, *rows = league_rows(contest)
    chips = [_color_mark(colors[standing.side.folder]) for standing in contest.ranked]
    named: list[Sequence[Child]] = [head]
    named += [(make("span", chip, name), *rest) for chip, (name, *rest) in zip(chips, rows, strict=True)]
    pairs = pair_rows(contest)
    if len(pairs) == 1:
        return [table(named, "League")]
    plot = _pictures({"comparison": comparison(contest)})
    return [table(named, "League"), plot, table(pairs, "Differences")]


def _table(parts: Sequence[EvaluationPart]) -> ET.Element:
    finished = [(index, part, part.evaluation.summary) for index, part in enumerate(parts)]
    shown = [(index, part, summary) for index, part, summary in finished if summary is not None]
    has_adjusted = all(part.evaluation.adjusted is not None for _, part, _ in shown)
    columns = []
    for _, part, summary in shown:
        adjusted = part.evaluation.adjusted if has_adjusted else None
        rows = rows_of(summary, *(each for *_, each in shown), adjusted=adjusted)
        columns.append([row for group in rows for row in group])
    chips = (make("span", _color_mark(index), part.name) for index, part, _ in shown)
    lines: list[Sequence[Child]] = [("", *chips)] if len(shown) > 1 else [("", "measured (95% interval)")]
    for same in zip(*columns, strict=True):
        cells = (
            (row.measured, make("span.interval", row.interval) if row.interval else None) for row in same
        )
        lines.append((same[0].label, *(make("span", measured, " ", limits) for measured, limits in cells)))
    return table(lines, "Scores and tiles")


def _color_mark(index: int) -> ET.Element:
    return make(f"span.chip.series-{index}")


def _warnings(parts: Sequence[EvaluationPart]) -> Iterator[str]:
    for part in parts:
        name = f"{part.name}: " if len(parts) > 1 else ""
        summary = part.evaluation.summary
        if summary is None:
            yield name + part.evaluation.completeness.reason
        else:
            yield from (name + warning for warning in warnings_of(summary))


def _luck(part: EvaluationPart, named: bool) -> ET.Element:
    """Make the section about luck: the adjustment, and pictures of the luckiest and unluckiest games."""
    assert part.values is not None
    adjusted = part.evaluation.adjusted
    return make(
        "section",
        make("h2", f"Luck of {part.name}" if named else "Luck"),
        make("p", adjusted.note) if adjusted and adjusted.note else None,
        _pictures({"luck": luck_picture(part.by_luck, part.values, COMPACT)}),
    )


def _games(parts: Sequence[EvaluationPart]) -> ET.Element:
    """Make the section with games to click through; `static/report.js` shows their boards."""
    keys: list[Child] = []
    for names, effect in KEYS:
        keys += [*(make("kbd", name) for name in names), f" {effect}, "]
    left = make(
        "div",
        make("p.title", id="viewer-title", aria_live="polite"),
        make("div", id="stage"),
        make("p.note.keys", *keys, make("kbd", "space"), " play or pause."),
    )
    games = (_games_of(part, index, len(parts) > 1) for index, part in enumerate(parts))
    right = make("div.right", make("div", id="curve"), make("div.games", *games))
    return make(
        "section",
        make("h2", "The worst and the best games"),
        make(
            "noscript",
            make("p.note", "To show the games, enable JavaScript. The rest of this page works without it."),
        ),
        make("div.columns", left, right, id="viewer", hidden=True),
        id="games",
    )


def _games_of(part: EvaluationPart, index: int, named: bool) -> ET.Element:
    left = {episode.game: episode for some in part.games.values() for episode in some}
    replay = FILE_HEADER + b"".join(map(record_of, left.values()))
    box = make(
        "div.games-of",
        make("h3", _color_mark(index), part.name) if named else None,
        data_part=f"{index}",
        data_replay=base64.b64encode(replay).decode(),
    )
    for title, some in part.games.items():
        fresh = [left.pop(episode.game) for episode in some if episode.game in left]
        if fresh:
            buttons = (make("li", _game_button(episode, index, part.name)) for episode in fresh)
            box.append(make("div", make("p.kind", title), make("ul", *buttons)))
    return box


def _game_button(episode: Episode, index: int, name: str) -> ET.Element:
    return make(
        "button.game",
        make("strong", f"{episode.score:,}"),
        make("span", f"{episode.largest_tile}", class_=f"tile-chip t{int(episode.final_board.max())}"),
        make("span.note", f"game {episode.game}, {len(episode):,} moves"),
        type="button",
        id=f"game-{index}-{episode.game}",
        aria_pressed="false",
        data_title=f"{name}, game {episode.game}",
    )


def _losses(part: EvaluationPart, index: int, named: bool) -> ET.Element:
    analysis = part.analysis
    assert analysis is not None
    # Differences of probabilities are not costs, so a judge with probabilities gets no costs here.
    judge, has_costs = analysis.judge, analysis.judge is not None and analysis.judge.unit != PROBABILITY
    games, last = counted(analysis.games, "game"), counted(analysis.last_moves, "move")
    said = f"These figures cover {games}, the last {last} of each."
    if judge is not None and analysis.all.agreement is not None:
        said += f" {judge.name} would also make {analysis.all.agreement:.1%} of these moves."
    drawn = lost_games(analysis)
    if not has_costs:
        drawn.pop("cost", None)
    section = make(
        "section",
        make("h2", f"Where {part.name} loses its games" if named else "Where the games are lost"),
        make("p", said),
        _pictures(drawn),
    )
    if judge is not None and has_costs and analysis.costliest:
        section.append(make("h3", "The costliest moves"))
        costly = (_costly_move(move, part, index, judge) for move in analysis.costliest[:COSTLY_MOVES])
        section.append(make("ul.costly-moves", *costly))
    return section


def _costly_move(move: CostlyMove, part: EvaluationPart, index: int, judge: JudgeName) -> ET.Element:
    """Make the item of a costly move, with a button that opens its game."""
    link: Child = f"Game {move.game}, move {move.move:,}"
    if any(episode.game == move.game for episode in part.games["With costly moves"]):
        to = {"data_game": f"game-{index}-{move.game}", "data_move": f"{move.move}"}
        link = make("button.link", link, type="button", data_better=f"{move.better}", **to)
    said = f": the player moves {MOVE_NAMES[move.made]}, {judge.name} would move {MOVE_NAMES[move.better]}. "
    return make("li", link, f"{said}Cost: {move.cost:,.0f} {judge.unit}.")


def _conditions(part: EvaluationPart, named: bool) -> ET.Element:
    evaluation, conditions = part.evaluation, part.evaluation.conditions
    run = evaluation.run
    rows: list[tuple[str, Child]] = [
        ("player", conditions.player),
        ("games", f"{len(evaluation.games):,}, seed {conditions.seed}"),
        ("SHA-256", _code_element(conditions.sha256)),
        ("decision rule", evaluation.decision_rule or ""),
        ("precision", conditions.precision),
        ("octofold-serve", evaluation.server_version or ""),
        ("moves per second", f"{run.moves_per_second:,.0f}" if run and run.moves_per_second else ""),
    ]
    rows += [("written", part.written), ("folder", _code_element(str(part.folder)))]
    rows += [fact for each in part.runs for fact in run_facts(each)] or [("command", "not recorded")]
    return make("div.conditions", make("h3", part.name) if named else None, facts(rows))


def run_facts(run: Provenance) -> list[tuple[str, Child]]:
    """Return the names and values that describe a run."""
    return [
        ("command", _code_element(run.command or "not recorded")),
        ("begun", f"{run.started}, octofold {run.octofold}"),
        ("machine of the client", run.machine),
    ]


def _code_element(text: str | None) -> Child:
    return make("code", text) if text else ""
