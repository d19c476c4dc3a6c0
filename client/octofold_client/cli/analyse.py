"""`octofold analyse`: where the games of a result folder were lost, and which moves cost most.

`analysis/endings.py` works out the figures, `analysis/report.py` writes them down.
"""

import functools
import json
import sys
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from octofold_game.files import write_text
from rich.console import Console

from octofold_client.analysis.endings import SCHEMA, Analysis, Ending, Verdicts
from octofold_client.analysis.judging import judge_positions, readable
from octofold_client.analysis.report import analysis_report
from octofold_client.analysis.trajectories import GAMES_AT_ONCE, Positions, batched, last_positions
from octofold_client.cli.arguments import (
    MOST_GAMES,
    Subcommands,
    add_server,
    asked_for,
    count,
    credentials_of,
)
from octofold_client.contenders.judges import Judge, local_judge, served_judge
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.report import missing_note
from octofold_client.evaluation.result_folder import Conditions, ResultFolder
from octofold_client.evaluation.servers import client_of, select_on
from octofold_client.extras import pictures_of
from octofold_client.terminal.interrupts import DeferredInterrupts
from octofold_client.terminal.progress import count_on

COSTLIEST_KEPT = 100
"""Costly moves in the JSON file, however many are shown."""


def add(subcommands: "Subcommands") -> None:
    parser = subcommands.add_parser(
        "analyse",
        help="say where games are lost",
        description="Looks at the last moves of every game of a result folder: how far the games came, and, "
        "with --player or --model, how often a stronger player agrees and which moves cost most.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a folder of results")
    parser.add_argument(
        "--last",
        type=functools.partial(count, most=MOST_GAMES),
        default=50,
        metavar="K",
        help="moves of each game to look at (default %(default)s)",
    )
    parser.add_argument(
        "--costliest",
        type=functools.partial(count, most=1000, least=0),
        default=5,
        metavar="N",
        help="moves to show as boards (default %(default)s)",
    )
    judge = parser.add_mutually_exclusive_group()
    judge.add_argument(
        "--player", metavar="SPEC", help="a player in this process, such as expectimax:depth=3"
    )
    judge.add_argument("--model", default="", metavar="NAME", help="a model of the server, NAME or NAME:N")
    add_server(parser)
    parser.add_argument(
        "--plots", action="store_true", help="draw a picture beside the report (needs octofold[plots])"
    )
    parser.set_defaults(run=analyse)


def analyse(options: Namespace) -> None:
    """Prints where the games of a result folder were lost, and writes it beside them.

    Ctrl-C ends the judging; what was judged is printed and written. Raises `EvaluationError` where there is
    no evaluation or no judge of that name, and as `Client` does.
    """
    folder = ResultFolder(options.folder)
    conditions = folder.conditions()
    if conditions is None:
        raise EvaluationError(f"{folder.path} holds no evaluation")
    # Asked before minutes of work rather than after them.
    pictures = pictures_of("octofold_client.analysis.pictures") if options.plots else None
    with ExitStack() as stack:
        judge = _judge_of(options, stack)
        endings, positions = _read(folder, options.last)
        verdicts = Verdicts.none(len(positions))
        interrupted = judge is not None and not _judge(judge, positions, verdicts)
    analysis = Analysis(endings, positions, verdicts)

    title = _title(conditions, len(endings), options.last)
    text = analysis_report(analysis, title, folder.path, judge, options.costliest)
    names = [] if pictures is None else [pictures.draw_analysis(folder.path, analysis, title, judge)]
    links = "".join(f"\n\n![{name.removesuffix('.png').replace('-', ' ')}]({name})" for name in names)
    write_text(folder.path / "analysis.md", f"{text}{links}\n")
    result = _described(conditions, judge, options.last) | analysis.to_json(COSTLIEST_KEPT)
    write_text(folder.path / "analysis.json", json.dumps(result, indent=2) + "\n")

    if missing := max(ending.game for ending in endings) + 1 - len(endings):
        print(missing_note(missing), file=sys.stderr)
    print(text)
    print()
    for name in ("analysis.json", "analysis.md", *names):
        print(f"written: {folder.path / name}")
    if judge is None:
        print("Name a judge with --player or --model, and it says which moves cost most.", file=sys.stderr)
    if interrupted:
        raise KeyboardInterrupt


def _judge_of(options: Namespace, stack: ExitStack) -> Judge | None:
    if options.player:
        return local_judge(options.player)
    if not options.model:
        return None
    credentials = credentials_of(options)
    selected = select_on([options.target], *asked_for(options.model), credentials)
    return served_judge(stack.enter_context(client_of(options.target, selected, credentials)), selected)


def _read(folder: ResultFolder, last: int) -> tuple[list[Ending], Positions]:
    endings, parts = [], []
    for episodes in batched(folder.finished(), GAMES_AT_ONCE):
        endings += [Ending.of(episode) for episode in episodes]
        parts.append(last_positions(episodes, last))
    if not parts:
        raise EvaluationError(f"{folder.replays} holds no finished game")
    return endings, Positions.joined(parts)


def _judge(judge: Judge, positions: Positions, verdicts: Verdicts) -> bool:
    """Asks about every position that the judge can read; False if Ctrl-C came in between."""
    try:
        with (
            DeferredInterrupts() as interrupts,
            count_on(
                Console(stderr=True), readable(judge, positions), f"positions judged by {judge.name}"
            ) as count,
        ):
            judge_positions(judge, positions, verdicts, count, interrupts.check)
    except KeyboardInterrupt:
        return False
    return True


def _title(conditions: Conditions, games: int, last: int) -> str:
    return (
        f"{conditions.player}: the last {last} moves of {games:,} "
        f"game{'' if games == 1 else 's'}, seed {conditions.seed}"
    )


def _described(conditions: Conditions, judge: Judge | None, last: int) -> dict[str, Any]:
    judged_by = judge and {"name": judge.name, "unit": judge.unit, "sha256": judge.sha256}
    return {"schema": SCHEMA, **conditions.to_json(), "last_moves": last, "judge": judged_by}
