"""Playing games into a result folder, with progress on the terminal: for evaluate, compare and play."""

import re
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack

from rich.console import Console

from octofold_client.cli.arguments import LOCAL_PARALLEL, PARALLEL, RESULTS, credentials_of
from octofold_client.contenders.contender import Contender
from octofold_client.contenders.player_specs import LocalContender
from octofold_client.contenders.player_thread import LocalSource
from octofold_client.errors import OctofoldError
from octofold_client.evaluation.evaluate import Source
from octofold_client.evaluation.evaluate import evaluate as run_evaluation
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.evaluation.servers import client_of
from octofold_client.terminal.interrupts import DeferredInterrupts
from octofold_client.terminal.progress import progress_on
from octofold_client.terminal.tables import print_report


def evaluate_into(
    folder: ResultFolder, contender: Contender, options: Namespace, games: int | None = None
) -> tuple[ResultFolder, Evaluation]:
    """Plays `games` (default: those of the options) into `folder`, with progress on standard error.

    Raises as `evaluation.evaluate` does, and says then what is kept.
    """
    games = games or options.games
    counted = f"{games:,} game{'s' if games > 1 else ''}"
    title = f"{contender.title}: {counted}, seed {options.seed}"
    progress = progress_on(Console(stderr=True), games, title)
    parallel = LOCAL_PARALLEL if isinstance(contender, LocalContender) else PARALLEL
    try:
        with DeferredInterrupts() as interrupts, ExitStack() as stack, progress:
            evaluation = run_evaluation(
                _sources_of(contender, options, stack, interrupts.check),
                contender,
                folder,
                seed=options.seed,
                games=games,
                parallel=options.parallel or parallel,
                progress=progress,
                while_waiting=interrupts.check,
            )
    except (KeyboardInterrupt, OctofoldError):
        if progress.done or progress.running:
            kept = f"{progress.done:,} of {counted} are kept in {folder.path}"
            if progress.running:
                kept += f", and the {progress.running:,} that were running"
            print(f"{kept}; the same command goes on from there.", file=sys.stderr)
        raise
    return folder, evaluation


def _sources_of(
    contender: Contender, options: Namespace, stack: ExitStack, while_waiting: Callable[[], None]
) -> list[Source]:
    """What answers for the contender, until the stack is left."""
    if isinstance(contender, LocalContender):
        return [stack.enter_context(LocalSource(contender))]
    credentials = credentials_of(options)
    return [
        stack.enter_context(client_of(target, contender, credentials, while_waiting))
        for target in options.targets
    ]


def show(folder: ResultFolder, evaluation: Evaluation) -> None:
    """Prints the table of an evaluation and where its files lie."""
    print_report(evaluation.summary, evaluation.title, Console())
    print()
    print(_pace(evaluation))
    print(f"replays: {folder.replays}")
    print(f"result:  {folder.result}")
    print(f"report:  {folder.report}")


def folder_of(contender: Contender, options: Namespace, alone: bool) -> ResultFolder:
    """Where the games of an evaluation belong; below --out, a folder for each of several."""
    name = folder_name("evaluate", contender, options)
    if not options.out:
        return ResultFolder(RESULTS / name)
    return ResultFolder(options.out if alone else options.out / name)


def _pace(evaluation: Evaluation) -> str:
    run = evaluation.run
    if run is None or run.moves_per_second is None:
        return "All games were played by an earlier run."
    pace = f"{run.moves_per_second:,.0f} moves/s over {run.seconds:,.1f} s"
    inference = run.inference_us / run.requests / 1000
    queue = run.queue_us / run.requests / 1000
    return f"pace:    {pace}; a call queued for {queue:.1f} ms and computed for {inference:.1f} ms"


def folder_name(command: str, contender: Contender, options: Namespace) -> str:
    # A local player's name may hold a path.
    model = re.sub(r"[^\w.,=-]+", "-", contender.model)
    return f"{command}-{model}-v{contender.version.version}-seed{options.seed}"
