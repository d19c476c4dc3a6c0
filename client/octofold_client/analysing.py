"""What `octofold analyse` does: reads how games ended, asks a judge about it, prints and keeps the figures.

The figures are those of `analysis.py`, their form that of `analysis_report.py`.
"""

import json
import sys
from argparse import Namespace
from contextlib import ExitStack
from typing import Any

import numpy as np
from octofold_game.files import write_text
from rich.console import Console

from octofold_client.analysis import SCHEMA, Analysis, Ending, Verdicts
from octofold_client.analysis_report import analysis_report
from octofold_client.commands import asked_for, client_of, credentials_of, select_on
from octofold_client.errors import EvaluationError
from octofold_client.interrupts import DeferredInterrupts
from octofold_client.judges import Judge, local_judge, served_judge
from octofold_client.judging import pictures_module
from octofold_client.progress import count_on
from octofold_client.report import missing_note
from octofold_client.results import Conditions, ResultFolder
from octofold_client.trajectories import GAMES_AT_ONCE, Positions, batched, last_positions

COSTLIEST_KEPT = 100
"""Costly moves in the JSON file, whatever is shown."""


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
    pictures = pictures_module() if options.plots else None
    with ExitStack() as stack:
        judge = _judge_of(options, stack)
        endings, positions = _read(folder, options.last)
        verdicts = Verdicts.none(len(positions))
        interrupted = judge is not None and not judge_positions(judge, positions, verdicts)
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


def judge_positions(judge: Judge, positions: Positions, verdicts: Verdicts) -> bool:
    """Asks about every position that the judge can read; False when Ctrl-C came in between."""
    rows = np.flatnonzero(positions.boards.max(axis=1) <= judge.largest_exponent)
    try:
        with (
            DeferredInterrupts() as interrupts,
            count_on(Console(stderr=True), len(rows), f"positions judged by {judge.name}") as count,
        ):
            for start in range(0, len(rows), judge.boards_at_once):
                interrupts.check()
                some = rows[start : start + judge.boards_at_once]
                verdicts.add(some, positions.made[some], judge.ask(positions.boards[some]))
                count(len(some))
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
