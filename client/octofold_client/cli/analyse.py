"""`octofold analyse`: shows where the games of a result folder were lost and which moves cost most.

`studies/endings.py` computes the figures, and `studies/ending_report.py` formats them.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octofold_game.commands.options import argument, option
from octofold_game.commands.subcommands import Command
from octofold_game.system.files import write_text
from octofold_game.trajectories import GAMES_AT_ONCE, Positions, batched, last_positions
from rich.console import Console

from octofold_client.cli.arguments import DEFAULT_TARGET, MOST_GAMES, PlotsFlag
from octofold_client.cli.html_report import HTML_FILE, HtmlFlag, write_html
from octofold_client.cli.json_output import Files, JsonFlag, print_files
from octofold_client.cli.judging import JudgeFlags
from octofold_client.contenders.judges import Judge
from octofold_client.contenders.player_specs import is_spec
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.result_folder import Conditions, ResultFolder
from octofold_client.evaluation.tables import missing_note
from octofold_client.extras import needing
from octofold_client.studies.ending_report import analysis_report
from octofold_client.studies.endings import (
    FILE,
    SCHEMA,
    Analysis,
    Ending,
    KeptAnalysis,
    Verdicts,
    judge_positions,
    readable,
)
from octofold_client.terminal.display import count_on, display_on
from octofold_client.terminal.interrupts import DeferredInterrupts
from octofold_client.terminal.tables import print_markdown
from octofold_client.wording import counted

REPORT = "analysis.md"
COSTLIEST_KEPT = 100
"""Number of costly moves in the JSON file."""


@dataclass(kw_only=True)
class Options(JsonFlag, HtmlFlag, PlotsFlag, JudgeFlags):
    """Its options."""

    folder: Path = argument("FOLDER", "result folder")
    last: int = option(50, "number of last moves of each game to examine", 1, MOST_GAMES, metavar="K")
    costliest: int = option(
        5, "number of stumbles of which the costliest move is printed as a board", 0, 1000
    )


def analyse(options: Options) -> None:
    """Print where the games of a result folder were lost, and write an analysis into the folder.

    Ctrl-C ends the judging; the verdicts so far are printed and written.

    Raises:
        EvaluationError: the folder is not a result folder, or the judge is unknown.
        OctofoldError: a call to the server failed.
    """
    folder, conditions = ResultFolder.of_evaluation(options.folder)
    # Fail before minutes of work, not after them.
    options.check_html()
    if options.plots:
        with needing("plots"):
            from octofold_client.studies.ending_pictures import draw_analysis
    with ExitStack() as stack:
        judge = options.judge_of(stack)
        endings, positions = _read(folder, options.last)
        verdicts = Verdicts.none(len(positions))
        interrupted = judge is not None and not _judge(judge, positions, verdicts)
    analysis = Analysis(endings, positions, verdicts)

    title = _title(conditions, len(endings), options.last)
    text = analysis_report(analysis, title, folder.path, judge, options.costliest, _judge_flags(options))
    found = _described(conditions, judge, options.last) | analysis.to_json(COSTLIEST_KEPT)
    if missing := conditions.missing_games([ending.game for ending in endings]):
        print(missing_note(missing), file=sys.stderr)
    if not options.json:
        print_markdown(text, Console())
        print()
    before = None if verdicts.judged.any() else _judged_before(folder.path)
    files: Files = {}
    if before is not None:
        # Do not replace minutes of judging by figures that take a second.
        print(
            f"{folder.path / FILE} is unchanged: it contains {before}; name a judge to replace it.",
            file=sys.stderr,
        )
    else:
        kept = KeptAnalysis.of(found)
        names = [draw_analysis(folder.path, kept, title)] if options.plots else []
        write_text(folder.path / REPORT, f"{text}{_links(names)}\n")
        write_text(folder.path / FILE, json.dumps(found, indent=2) + "\n")
        files = {"result": str(folder.path / FILE), "report": str(folder.path / REPORT)}
        files["pictures"] = [str(folder.path / name) for name in names]
    if options.html:
        files["page"] = write_html(folder.path / HTML_FILE, [folder.path])
    print_files(found, files, options.json)
    if judge is None and before is None:
        print("To see which moves cost most, name a judge with --judge.", file=sys.stderr)
    if interrupted:
        raise KeyboardInterrupt


def _links(pictures: Sequence[str]) -> str:
    return "".join(f"\n\n![{name.removesuffix('.png').replace('-', ' ')}]({name})" for name in pictures)


def _judged_before(folder: Path) -> str | None:
    """A description of the judged analysis in the folder; None without one."""
    try:
        kept = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if not kept["judged"]:
            return None
        return f"the analysis of the last {kept['last_moves']} moves by {kept['judge']['name']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # missing or unreadable
        return None


def _judge_flags(options: Options) -> list[str]:
    """The flags of `octofold replay` that show what the judge thinks."""
    elsewhere = options.targets != [DEFAULT_TARGET] and not is_spec(options.judge)
    return ["--judge", options.judge, *(["--target", ",".join(options.targets)] if elsewhere else [])]


def _read(folder: ResultFolder, last: int) -> tuple[list[Ending], Positions]:
    endings, parts = [], []
    for episodes in batched(folder.finished(), GAMES_AT_ONCE):
        endings += [Ending.of(episode) for episode in episodes]
        parts.append(last_positions(episodes, last))
    if not parts:
        raise EvaluationError(f"{folder.replays} contains no finished games")
    return endings, Positions.joined(parts)


def _judge(judge: Judge, positions: Positions, verdicts: Verdicts) -> bool:
    """Judge every position within the judge's largest exponent; return False after Ctrl-C."""
    display = display_on(Console(stderr=True))
    try:
        with (
            DeferredInterrupts() as interrupts,
            count_on(display, readable(judge, positions), f"judged by {judge.name}", "positions") as count,
        ):
            judge_positions(judge, positions, verdicts, count, interrupts.check)
    except KeyboardInterrupt:
        return False
    return True


def _title(conditions: Conditions, games: int, last: int) -> str:
    return f"{conditions.player}: the last {last} moves of {counted(games, 'game')}, seed {conditions.seed}"


def _described(conditions: Conditions, judge: Judge | None, last: int) -> dict[str, Any]:
    judged_by = judge and {"name": judge.name, "unit": judge.unit, "sha256": judge.sha256}
    return {"schema": SCHEMA, **conditions.to_json(), "last_moves": last, "judge": judged_by}


COMMAND = Command(
    "analyse",
    "show where games were lost",
    "Examines the last moves of every game in a result folder and prints how the games "
    "ended. With --judge, also prints how often the judge agrees and which moves cost most.",
    Options,
    analyse,
)
