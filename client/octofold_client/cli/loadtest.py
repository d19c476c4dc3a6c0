"""`octofold loadtest`: measures throughput and latency of a server under load.

The table goes to standard output, progress to standard error, the result into a folder after every step.
Failures are raised; `command_line.py` turns them into one line and an exit code.
"""

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from octofold_game.files import write_text
from octofold_game.rules import LARGEST_EXPONENT
from rich.console import Console

from octofold_client.cli.arguments import (
    RESULTS,
    Subcommands,
    add_model,
    add_server,
    asked_for,
    credentials_of,
)
from octofold_client.cli.load_levels import add_arguments, check_together
from octofold_client.contenders.served_model import ServedModel
from octofold_client.evaluation.result_folder import check_writable, replays_of
from octofold_client.evaluation.servers import Servers
from octofold_client.extras import pictures_of
from octofold_client.loadtest.boards import Boards, played_boards, replayed_boards
from octofold_client.loadtest.loads import Closed, Load, Open
from octofold_client.loadtest.progress import Progress
from octofold_client.loadtest.report import markdown, print_report
from octofold_client.loadtest.result import LoadTest, Setup
from octofold_client.loadtest.running import Run
from octofold_client.loadtest.statistics import ServerStatistics
from octofold_client.loadtest.steps import Plan, Step
from octofold_client.loadtest.workers import Task, Workers
from octofold_client.terminal.display import display_on
from octofold_client.terminal.interrupts import DeferredInterrupts

DEFAULT_CONCURRENCY = [1, 2, 4, 8, 16, 32, 64, 128]


def add(subcommands: "Subcommands") -> None:
    parser = subcommands.add_parser(
        "loadtest",
        help="measure throughput and latency of a server under load",
        description="Puts load on a server, step by step, each until three measurements agree, and prints "
        "rates and latencies. Ctrl-C keeps what was measured.",
    )
    add_server(parser)
    add_model(parser)
    add_arguments(parser)
    parser.set_defaults(run=loadtest)


def loadtest(options: Namespace) -> None:
    """Makes the loads that the options name, or searches for the highest rate, and prints what came of it.

    What was measured is kept whatever ends the test.
    """
    check_together(options)
    # Asked before minutes of work rather than after them.
    draw = pictures_of("octofold_client.loadtest.pictures").draw if options.plots else None
    credentials = credentials_of(options)
    with Servers([options.target], credentials) as servers:
        selected = servers.select(*asked_for(options.model, options.version))
        server_version = servers.client.server_version()
    largest = selected.largest_exponent or LARGEST_EXPONENT
    boards, boards_from = _boards(options, largest)
    setup = _setup(options, selected, server_version, boards_from)
    folder = options.out or RESULTS / f"loadtest-{selected.model}-v{setup.version}-{_name(options)}"
    check_writable(folder)
    task = Task(
        target=options.target,
        model=setup.model,
        version=setup.version,
        form=options.form,
        boards=boards,
        largest_exponent=largest,
        seed=options.seed,
        timeout_seconds=options.timeout,
        credentials=credentials,
    )
    test = LoadTest(setup, options.slo)
    loads = _loads(options)
    progress = _KeepingProgress(test, folder, None if options.slo else len(loads))
    try:
        with (
            DeferredInterrupts() as interrupts,
            Workers(task, options.processes, interrupts.check) as workers,
            ServerStatistics(setup.target, setup.model, setup.version, credentials) as statistics,
            progress,
        ):
            run = Run(test, workers.windows, statistics.read, progress)
            if options.slo:
                run.search(poisson=options.arrivals == "poisson")
            else:
                run.sweep(loads)
    finally:
        if test.steps:
            _show(test, folder, draw)


class _KeepingProgress(Progress):
    """Writes the result's file after every step, before anything else can happen."""

    def __init__(self, test: LoadTest, folder: Path, expected: int | None) -> None:
        super().__init__(test, display_on(Console(stderr=True)), expected)
        self._folder = folder
        self._kept = test

    def measured(self, step: Step) -> None:
        _write_result(self._kept, self._folder)
        super().measured(step)


def _show(test: LoadTest, folder: Path, draw: Callable[[Path, LoadTest], list[str]] | None) -> None:
    result = _write_result(test, folder)
    pictures = draw(folder, test) if draw is not None else []
    report = folder / "loadtest.md"
    write_text(report, markdown(test, pictures))
    print_report(test, Console())
    print()
    print(f"result:  {result}")
    print(f"report:  {report}")
    for name in pictures:
        print(f"picture: {folder / name}")


def _write_result(test: LoadTest, folder: Path) -> Path:
    file = folder / "loadtest.json"
    write_text(file, json.dumps(test.to_json(), indent=1) + "\n")
    return file


def _loads(options: Namespace) -> list[Load]:
    if options.rate:
        return [Open(rate, options.arrivals == "poisson") for rate in options.rate]
    return [Closed(callers, options.think) for callers in options.concurrency or DEFAULT_CONCURRENCY]


def _boards(options: Namespace, largest_exponent: int) -> tuple[Boards | None, str]:
    """The boards to ask about, None where every caller plays; and where they come from, in words."""
    if options.games:
        return None, f"games of seed {options.seed}, as they go"
    if options.boards:
        file = replays_of(options.boards)
        return replayed_boards(file, largest_exponent, seed=options.seed), f"positions of the games in {file}"
    return played_boards(largest_exponent, seed=options.seed), "positions of a greedy player's games"


def _setup(options: Namespace, selected: ServedModel, server_version: str | None, boards_from: str) -> Setup:
    return Setup(
        target=options.target,
        model=selected.model,
        version=selected.version.version,
        precision=selected.version.precision,
        sha256=selected.sha256,
        server_version=server_version,
        form=str(options.form),
        boards_a_call=options.form.boards,
        boards_from=boards_from,
        processes=options.processes,
        seed=options.seed,
        timeout_seconds=options.timeout,
        plan=Plan(options.ramp, options.window, options.windows),
    )


def _name(options: Namespace) -> str:
    """Of a folder, so that tests of one kind are found together."""
    kind = "slo" if options.slo else "rate" if options.rate else "games" if options.games else "concurrency"
    return f"{str(options.form).replace(':', '')}-{kind}"
