"""The sections of a report: figures, pictures, games to click through, where they are lost, conditions.

This module needs matplotlib, which is not part of the base installation.
"""

import base64
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from octofold_game.drawing.figures import COMPACT, svg_of
from octofold_game.episodes import Episode
from octofold_game.replays import FILE_HEADER, record_of
from octofold_game.rules import MOVE_NAMES

from octofold_client.contenders.judges import PROBABILITY
from octofold_client.evaluation.contest import Contest
from octofold_client.evaluation.contest_report import league_rows, pair_rows, sentences
from octofold_client.evaluation.sides import Side
from octofold_client.evaluation.tables import ASSUMED, INTERVALS, SummaryRow, rows_of, warnings_of
from octofold_client.provenance import Provenance
from octofold_client.studies.contest_picture import panels
from octofold_client.studies.ending_pictures import panels_of
from octofold_client.studies.endings import CostlyMove, JudgeName
from octofold_client.studies.html.elements import Child, facts, make, picture, table
from octofold_client.studies.html.results import COSTLY_MOVES, EvaluationPart
from octofold_client.studies.pictures import luck_picture, overlaid

CAPTIONS = {
    "averages": ("Average scores", "Points are averages, lines are their 95% intervals."),
    "differences": (
        "Differences in score",
        "The better player of each pair over the other one. The intervals are right together; where one "
        "contains 0, either player may be the better one.",
    ),
    "score-distribution": (
        "How the scores are spread",
        "Each bar is the number of games in a range of scores, colored by the largest tile of these games. "
        "Scores gather in clusters, because most games end while they build their next large tile.",
    ),
    "tiles-reached": ("How many games make each tile", "Bars are measured, lines are 95% intervals."),
    "survival-by-move": (
        "How long the games last",
        "The share of the games that are not over after so many moves.",
    ),
    "luck": (
        "The luckiest and the unluckiest games",
        "The expected score of a game begins at the same value and ends at its score. Luck is what the new "
        "tiles have added to it, compared with all tiles that could have come; the rest is by the moves.",
    ),
    "score-by-move": (
        "How the score grows",
        "The average score after each move, of the games that go on; the band is one standard deviation. "
        "A curve ends where fewer than ten games are left.",
    ),
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
"""Title and explanation of each picture."""
KEYS = (("←", "→"), "one move"), (("page up", "page down"), "10 moves"), (("home", "end"), "start and end")


def evaluation_sections(parts: list[EvaluationPart], contest: Contest | None) -> list[ET.Element]:
    """The sections about evaluations; without a contest, each is compared with the first one."""
    finished = [part for part in parts if part.evaluation.summary is not None]
    drawn = overlaid(finished, COMPACT) if finished else {}
    pictures = (picture(svg_of(drawn[name]), *CAPTIONS[name]) for name in CAPTIONS if name in drawn)
    return [
        _results(parts, finished, contest),
        *([make("section", make("h2", "Pictures"), make("div.pictures", *pictures))] if drawn else []),
        *(_luck(part, len(parts) > 1) for part in finished if part.games.by_luck),
        _games(parts),
        *(_lost(part, index, len(parts) > 1) for index, part in enumerate(parts) if part.analysis),
        make("section", make("h2", "Conditions"), *(_conditions(part, len(parts) > 1) for part in parts)),
    ]


def _results(
    parts: list[EvaluationPart], finished: list[EvaluationPart], contest: Contest | None
) -> ET.Element:
    said = _comparisons(parts) if contest is None else sentences(contest)
    notes = [make("p.finding", note) for note in dict.fromkeys([*said, *_warnings(parts)]) if note != ASSUMED]
    figures = [_table(finished), make("p.note", f"{INTERVALS} {ASSUMED}")] if finished else []
    if contest is None or len(contest.pairs) == 1:
        return make("section", make("h2", "Results"), *notes, *figures)
    return make("section", make("h2", "Results"), *_league(contest, parts), *figures, *notes)


def _league(contest: Contest, parts: list[EvaluationPart]) -> list[ET.Element]:
    """The league table, the forest plot and the differences."""
    colors = {part.folder: index for index, part in enumerate(parts)}
    head, *rows = league_rows(contest)
    chips = [_chip(colors[standing.side.folder]) for standing in contest.ranked]
    named: list[Sequence[Child]] = [head]
    named += [(make("span", chip, name), *rest) for chip, (name, *rest) in zip(chips, rows, strict=True)]
    found = [table(named, "League")]
    pairs = pair_rows(contest)
    if len(pairs) > 1:
        drawn = panels(contest, COMPACT)
        pictures = (picture(svg_of(drawn[name]), *CAPTIONS[name]) for name in drawn)
        found += [make("div.pictures", *pictures), table(pairs, "Differences")]
    return found


def _table(parts: list[EvaluationPart]) -> ET.Element:
    has_adjusted = all(part.evaluation.adjusted is not None for part in parts)
    summaries = [part.summary for part in parts]
    columns = []
    for part in parts:
        adjusted = part.evaluation.adjusted if has_adjusted else None
        figures, tiles = rows_of(part.summary, *summaries, adjusted=adjusted)
        columns.append([*figures, *tiles])
    chips = (make("span", _chip(index), part.name) for index, part in enumerate(parts))
    head: list[Sequence[Child]] = [("", *chips)] if len(parts) > 1 else [("", "measured (95% interval)")]
    rows = head + [(same[0].label, *map(_measured, same)) for same in zip(*columns, strict=True)]
    return table(rows, "Scores and tiles")


def _chip(index: int) -> ET.Element:
    """The color of a result."""
    return make(f"span.chip.series-{index}")


def _measured(row: SummaryRow) -> Child:
    return make("span", row.measured, " ", make("span.interval", row.interval) if row.interval else None)


def _comparisons(parts: list[EvaluationPart]) -> list[str]:
    """Each result compared with the first one, if they have the same games."""
    sides = []
    for part in parts:
        evaluation = part.evaluation
        columns = (evaluation.games.column(name).tolist() for name in ("game", "score"))
        scores = dict(zip(*columns, strict=True))
        sides.append(Side(part.name, evaluation.conditions, part.folder, scores, evaluation.completeness))
    first, *others = sides
    named = len(others) > 1  # a sentence names only the better one
    return [
        (f"{other.name} and {first.name}: " if named else "") + Contest.of([first, other]).pairs[0].sentence
        for other in others
        if first.conditions.seed == other.conditions.seed and first.scores.keys() & other.scores.keys()
    ]


def _warnings(parts: list[EvaluationPart]) -> Iterator[str]:
    for part in parts:
        name = f"{part.name}: " if len(parts) > 1 else ""
        summary = part.evaluation.summary
        if summary is None:
            yield name + part.evaluation.completeness.reason
        else:
            yield from (name + warning for warning in warnings_of(summary))


def _luck(part: EvaluationPart, named: bool) -> ET.Element:
    """The average without luck, and the games with the most and the least of it."""
    assert part.values is not None
    adjusted = part.evaluation.adjusted
    drawn = svg_of(luck_picture(part.games.by_luck, part.values, COMPACT))
    return make(
        "section",
        make("h2", f"Luck of {part.name}" if named else "Luck"),
        make("p", adjusted.note) if adjusted and adjusted.note else None,
        make("div.pictures", picture(drawn, *CAPTIONS["luck"])),
    )


def _games(parts: list[EvaluationPart]) -> ET.Element:
    """The worst and the best games of every result, and the board; `static/report.js` shows a game."""
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
        make("noscript", make("p.note", "The games need JavaScript; everything else on this page does not.")),
        make("div.columns", left, right, id="viewer", hidden=True),
        id="games",
    )


def _games_of(part: EvaluationPart, index: int, named: bool) -> ET.Element:
    games = part.games
    replay = FILE_HEADER + b"".join(map(record_of, games.all.values()))
    box = make(
        "div.games-of",
        make("h3", _chip(index), part.name) if named else None,
        data_part=f"{index}",
        data_replay=base64.b64encode(replay).decode(),
    )
    left = games.all
    kinds = ("Worst", games.worst), ("Best", games.best)
    others = ("Luckiest and unluckiest", games.by_luck), ("With costly moves", games.others)
    for title, some in (*kinds, *others):
        fresh = [left.pop(episode.game) for episode in some if episode.game in left]
        if fresh:
            buttons = (make("li", _button(episode, index, part.name)) for episode in fresh)
            box.append(make("div", make("p.kind", title), make("ul", *buttons)))
    return box


def _button(episode: Episode, index: int, name: str) -> ET.Element:
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


def _lost(part: EvaluationPart, index: int, named: bool) -> ET.Element:
    analysis = part.analysis
    assert analysis is not None
    # A probability is no cost: a judge that has nothing else only agrees or not.
    judge, has_costs = analysis.judge, analysis.judge is not None and analysis.judge.unit != PROBABILITY
    said = f"The last {analysis.last_moves:,} moves of each of {analysis.games:,} games."
    if judge is not None and analysis.all.agreement is not None:
        said += f" {judge.name} would make {analysis.all.agreement:.1%} of these moves, too."
    panels = {name: drawn for name, drawn in panels_of(analysis).items() if name != "cost" or has_costs}
    section = make(
        "section",
        make("h2", f"Where {part.name} loses its games" if named else "Where the games are lost"),
        make("p", said),
        make("div.pictures", *(picture(svg_of(drawn), *CAPTIONS[name]) for name, drawn in panels.items())),
    )
    if judge is not None and has_costs and analysis.costliest:
        section.append(make("h3", "The costliest moves"))
        costly = (_costly(move, part, index, judge) for move in analysis.costliest[:COSTLY_MOVES])
        section.append(make("ul.costly-moves", *costly))
    return section


def _costly(move: CostlyMove, part: EvaluationPart, index: int, judge: JudgeName) -> ET.Element:
    """A costly move as a small board with a way into its game."""
    link: Child = f"Game {move.game}, move {move.move:,}"
    if move.game in part.games.all:
        to = {"data_game": f"game-{index}-{move.game}", "data_move": f"{move.move}"}
        link = make("button.link", link, type="button", data_better=f"{move.better}", **to)
    said = f": the player moves {MOVE_NAMES[move.made]}, {judge.name} {MOVE_NAMES[move.better]}. "
    return make(
        "li", _small_board(move.board), make("p", link, f"{said}Cost: {move.cost:,.0f} {judge.unit}.")
    )


def _small_board(board: list[int]) -> ET.Element:
    """A board that does not change."""
    tiles = [f"{1 << exponent}" if exponent else "" for exponent in board]
    rows = "; ".join(", ".join(tile or "empty" for tile in tiles[row : row + 4]) for row in range(0, 16, 4))
    cells = (
        # As the page does, 16k for 16384: small cells have no room for five digits.
        make("span", tile if len(tile) < 5 else f"{int(tile) >> 10}k", class_=f"small-cell t{exponent}")
        for exponent, tile in zip(board, tiles, strict=True)
    )
    return make("div.small-board", *cells, role="img", aria_label=f"Board: {rows}")


def _conditions(part: EvaluationPart, named: bool) -> ET.Element:
    evaluation, conditions = part.evaluation, part.evaluation.conditions
    run = evaluation.run
    rows: list[tuple[str, Child]] = [
        ("player", conditions.player),
        ("games", f"{len(evaluation.games):,}, seed {conditions.seed}"),
        ("SHA-256", _code(conditions.sha256)),
        ("decision rule", evaluation.decision_rule or ""),
        ("precision", conditions.precision),
        ("octofold-serve", evaluation.server_version or ""),
        ("moves per second", f"{run.moves_per_second:,.0f}" if run and run.moves_per_second else ""),
    ]
    rows += [("written", part.written), ("folder", _code(str(part.folder)))]
    for each in part.runs:
        rows += run_facts(each)
    if not part.runs:
        rows.append(("command", "not recorded"))
    return make("div.conditions", make("h3", part.name) if named else None, facts(rows))


def run_facts(run: Provenance) -> list[tuple[str, Child]]:
    """What is known about a run."""
    return [
        ("command", _code(run.command or "not recorded")),
        ("begun", f"{run.started}, octofold {run.octofold}"),
        ("machine of the client", run.machine),
    ]


def _code(text: str | None) -> Child:
    return make("code", text) if text else ""
