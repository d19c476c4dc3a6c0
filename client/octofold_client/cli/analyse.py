"""`octofold analyse`: shows where the games of a result folder were lost and which moves cost most.

`studies/analysis.py` computes the figures.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np
from octofold_game.commands.options import argument, option
from octofold_game.commands.subcommands import Command
from octofold_game.contract.results import RESULTS
from octofold_game.drawing.board_text import board_text
from octofold_game.rules import MOVE_NAMES
from octofold_game.system.files import write_text
from octofold_game.trajectories import GAMES_AT_ONCE, Positions, batched, last_positions
from rich.console import Console

from octofold_client.cli.game_flags import MOST_GAMES
from octofold_client.cli.html_report import HTML_FILE, HtmlFlag, write_html
from octofold_client.cli.judge_flags import JudgeFlags
from octofold_client.cli.shared_flags import Files, JsonFlag, print_files
from octofold_client.contenders.judges import PROBABILITY, Judge
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.interrupts import DeferredInterrupts
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.studies.analysis import (
    COSTLIEST_KEPT,
    FILE,
    QUARTERS,
    SCHEMA,
    Analysis,
    CostlyMove,
    Ending,
    Group,
    JudgeName,
    Verdicts,
    judge_positions,
)
from octofold_client.terminal.display import count_on, display_on
from octofold_client.terminal.markdown import print_markdown
from octofold_client.wording import aligned, counted

REPORT = "analysis.md"
PAGE = "http://127.0.0.1:8000/"
"""Address of the page of a server that was started with `make serve`."""


@dataclass(kw_only=True)
class Options(JsonFlag, HtmlFlag, JudgeFlags):
    """Options of `octofold analyse`."""

    folder: Path = argument("FOLDER", "result folder")
    last: int = option(50, "number of moves to examine at the end of each game", 1, MOST_GAMES, metavar="K")
    costliest: int = option(
        5,
        "number of costly moves to print, with their boards; if costly moves of a game are close together, "
        "only the costliest is printed",
        0,
        COSTLIEST_KEPT,
    )


def analyse(options: Options) -> None:
    """Print where the games of a result folder were lost, and write an analysis into the folder.

    An unjudged analysis does not replace a judged one. After Ctrl-C, the verdicts so far are used.

    Raises:
        EvaluationError: the folder is not a result folder or has no finished games, or the judge is unknown.
        OctofoldError: a replay file is damaged, or a call to the server failed.
    """
    folder, conditions = ResultFolder.of_evaluation(options.folder)
    options.check_html()
    with ExitStack() as stack:
        judge = options.judge_of(stack)
        endings, positions = _read_games(folder, options.last)
        verdicts = Verdicts.none(len(positions))
        interrupted = judge is not None and not _judge(judge, positions, verdicts)
    analysis = Analysis.of(endings, positions, verdicts, options.last, judge)

    games, last = counted(len(endings), "game"), counted(options.last, "move")
    title = f"{conditions.player}: the last {last} of {games}, seed {conditions.seed}"
    text = _report(analysis, title, options.costliest, folder.path)
    content = {"schema": SCHEMA, **conditions.to_json()} | asdict(analysis)
    completeness = conditions.completeness([ending.game for ending in endings])
    if completeness.missing:
        text += f"\n\n{completeness.reason}"
    if completeness.missing and options.json:
        print(completeness.reason, file=sys.stderr)
    if not options.json:
        print_markdown(text, Console())
        print()
    before = None if verdicts.judged.any() else _describe_judged_analysis(folder.path)
    files: Files = {}
    if before is not None:
        # The figures of this run took a second. The judged analysis in the folder took minutes.
        print(
            f"{folder.path / FILE} is unchanged: it contains {before}. To replace it, use --judge.",
            file=sys.stderr,
        )
    else:
        write_text(folder.path / REPORT, f"{text}\n")
        write_text(folder.path / FILE, json.dumps(content, indent=2) + "\n")
        files = {"result": str(folder.path / FILE), "report": str(folder.path / REPORT)}
    if options.html:
        files["page"] = write_html(folder.path / HTML_FILE, [folder.path])
    print_files(content, files, options.json)
    if judge is None and before is None:
        print("To see which moves cost most, use --judge.", file=sys.stderr)
    if interrupted:
        raise KeyboardInterrupt


def _describe_judged_analysis(folder: Path) -> str | None:
    """Return a description of the judged analysis in the folder; None if the folder has none."""
    try:
        kept = json.loads((folder / FILE).read_text(encoding="utf-8"))
        last, judge = counted(kept["last_moves"], "move"), kept["judge"]["name"]
        return f"an analysis of the last {last}, judged by {judge}" if kept["judged"] else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # missing or unreadable
        return None


def _read_games(folder: ResultFolder, last: int) -> tuple[list[Ending], Positions]:
    endings, parts = [], []
    for episodes in batched(folder.finished(), GAMES_AT_ONCE):
        endings += [Ending.of(episode) for episode in episodes]
        parts.append(last_positions(episodes, last))
    if not parts:
        raise EvaluationError(f"{folder.replays} contains no finished games")
    return endings, Positions.joined(parts)


def _judge(judge: Judge, positions: Positions, verdicts: Verdicts) -> bool:
    """Judge the positions, and put the results into `verdicts`. Return False if Ctrl-C ended the work.

    Positions with tiles too large for the judge are skipped.
    """
    display = display_on(Console(stderr=True))
    try:
        with (
            DeferredInterrupts() as interrupts,
            count_on(display, len(positions), f"judged by {judge.name}", "positions") as count,
        ):
            judge_positions(judge, positions, verdicts, count, interrupts.check)
    except KeyboardInterrupt:
        return False
    return True


def _report(analysis: Analysis, title: str, costliest: int, folder: Path) -> str:
    """Return the report as Markdown: tables, and the costliest moves with links to the server's page."""
    parts = [f"**{title}**", _endings_table(analysis)]
    if analysis.judge is not None:
        parts.append(_agreement(analysis, analysis.judge))
    judge = analysis.judge if analysis.judged else None
    parts.append(_groups_table("moves to the end", analysis.by_distance, judge))
    parts.append(_groups_table("largest tile", analysis.by_stage, judge))
    if judge is not None and (costly := analysis.costliest[:costliest]):
        absolute = folder.absolute()
        results = RESULTS if RESULTS.absolute() in absolute.parents else absolute.parent
        name = quote(str(absolute.relative_to(results.absolute())), safe="")
        parts += [_costly_move(move, f"{PAGE}#replay/{name}", judge) for move in costly]
        parts.append(f"To open these links, run octofold-serve with --results {results}.")
    return "\n\n".join(parts)


def _endings_table(analysis: Analysis) -> str:
    rows = [
        (
            f"{row.largest_tile}",
            f"{row.games:,}",
            f"{row.games / analysis.games:.1%}",
            *map(str, row.quarters),
        )
        for row in analysis.endings
    ]
    table = aligned([("ended at", "games", "share", *QUARTERS), *rows])
    note = "The last columns count games by the sum of all other tiles, as a share of the largest tile."
    return "\n".join([*table, "", note])


def _agreement(analysis: Analysis, judge: JudgeName) -> str:
    whole = analysis.all
    if whole.agreement is None or whole.agreement_interval is None:
        return f"{judge.name} judged none of the {whole.positions:,} positions."
    low, high = whole.agreement_interval
    said = (
        f"{judge.name} agrees with {whole.agreement:.1%} of the moves "
        f"(95% interval {100 * low:.1f} to {100 * high:.1f}%)."
    )
    if (cost := analysis.cost_of_a_game) is not None:
        said += f" The other moves cost {_with_unit(cost.average, judge)} per game"
        if cost.interval is not None:
            low, high = cost.interval
            said += f", 95% interval {_format_value(low, judge)} to {_format_value(high, judge)}"
        said += "."
    if whole.judged < whole.positions:
        said += f" {judge.name} judged {whole.judged:,} of {whole.positions:,} positions."
    return said


def _groups_table(heading: str, groups: Sequence[Group], judge: JudgeName | None) -> str:
    headings = [heading, "positions", "empty cells", "legal moves"]
    rows = [
        [group.label, f"{group.positions:,}", f"{group.empty_cells:.1f}", f"{group.choices:.1f}"]
        for group in groups
    ]
    if judge is not None:
        headings += ["agreement", "cost per move", "share of cost"]
        for row, group in zip(rows, groups, strict=True):
            row.append("" if group.agreement is None else f"{group.agreement:.1%}")
            row.append("" if group.cost is None else _format_value(group.cost, judge))
            row.append("" if group.cost_share is None else f"{group.cost_share:.1%}")
    return "\n".join(aligned([headings, *rows]))


def _costly_move(move: CostlyMove, link: str, judge: JudgeName) -> str:
    values = ", ".join(
        f"{name} {_format_value(value, judge)}"
        for name, value in zip(MOVE_NAMES, move.values, strict=True)
        if value is not None
    )
    return "\n".join(
        [
            f"Game {move.game}, move {move.move:,}: the player moved {MOVE_NAMES[move.made]}, {judge.name} "
            f"would move {MOVE_NAMES[move.better]}; cost {_with_unit(move.cost, judge)} ({values}).",
            "",
            "```",
            board_text(np.array(move.board)),
            "```",
            "",
            f"{link}/{move.game}/{move.move}",
        ]
    )


def _format_value(value: float, judge: JudgeName) -> str:
    if judge.unit == PROBABILITY:
        return f"{value:.1%}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"


def _with_unit(value: float, judge: JudgeName) -> str:
    return f"{_format_value(value, judge)} {judge.unit}"


COMMAND = Command(
    "analyse",
    "show where games were lost",
    "Examines the last moves of every game in a result folder and prints how the games "
    "ended. With --judge, also prints how often the judge agrees and which moves cost most.",
    Options,
    analyse,
    examples=(
        "results/play-flagship-v5-seed0",
        "results/play-flagship-v5-seed0 --judge ntuple:models/ntuple/4",
        "results/mine --last 100 --costliest 5",
    ),
)
