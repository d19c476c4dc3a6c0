"""`octofold loadtest`: measures throughput and latency of a server under load.

It prints the table to standard output and progress to standard error, and writes the result into a folder
after every step.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from octofold_game.commands.subcommands import Command
from octofold_game.rules import LARGEST_EXPONENT
from octofold_game.system.files import write_text
from rich.console import Console

from octofold_client.cli.arguments import ModelFlags, ServerFlags, asked_for, name_in_folder, result_folders
from octofold_client.cli.html_report import HTML_FILE, HtmlFlag, write_html
from octofold_client.cli.json_output import Files, JsonFlag, print_files
from octofold_client.cli.load_levels import LoadFlags
from octofold_client.contenders.served_model import ServedModel
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.result_folder import ResultFolder, check_writable
from octofold_client.extras import needing
from octofold_client.loadtest.result import FILE, LoadTest, Setup
from octofold_client.loadtest.search import LoadTestProgress, LoadTestRun
from octofold_client.loadtest.statistics import ServerStatistics
from octofold_client.loadtest.steps import Step
from octofold_client.loadtest.tables import markdown, print_report
from octofold_client.loadtest.workers import Task, Workers
from octofold_client.provenance import Provenance
from octofold_client.terminal.display import display_on
from octofold_client.terminal.interrupts import DeferredInterrupts

REPORT = "loadtest.md"


@dataclass(kw_only=True)
class Options(JsonFlag, HtmlFlag, LoadFlags, ModelFlags, ServerFlags):
    """Its options."""


def loadtest(options: Options) -> None:
    """Measure the loads that the flags name, or search for the highest rate, and print the result.

    The steps measured so far are kept, whatever ends the test.

    Raises:
        LoadTestError: the test cannot start or continue.
        EvaluationError: the folder or the file of boards is not usable.
        OctofoldError: the server cannot be reached or does not have the model.
    """
    options.check_load()
    # Fail before minutes of work, not after them.
    options.check_html()
    if options.plots:
        with needing("plots"):
            import octofold_client.loadtest.pictures  # noqa: F401
    credentials, asked = options.credentials(), asked_for(options.model, options.version)
    with options.servers() as found:
        served = found.select(*asked)
        server_version, target = found.client.server_version(), found.target
    largest = served.largest_exponent or LARGEST_EXPONENT
    boards, boards_from = options.load_boards(largest)
    setup = _setup(target, options, served, server_version, boards_from)
    folder = _folder(options.out, setup, options)
    task = Task(
        target=setup.target,
        model=setup.model,
        version=setup.version,
        form=options.form,
        boards=boards,
        largest_exponent=largest,
        seed=options.seed,
        timeout_seconds=options.timeout,
        credentials=credentials,
    )
    test = LoadTest(setup, options.slo, run=Provenance.now())
    progress = _KeepingProgress(test, folder, None if options.slo else len(options.loads))
    try:
        with (
            DeferredInterrupts() as interrupts,
            Workers(task, options.processes, interrupts.check) as workers,
            ServerStatistics(setup.target, setup.model, setup.version, credentials) as statistics,
            progress,
        ):
            run = LoadTestRun(test, workers.windows, statistics.read, progress)
            if options.slo is not None:
                run.search(poisson=options.is_poisson)
            else:
                run.sweep(options.loads)
    finally:
        if test.steps:
            files = _write_files(test, folder, plots=options.plots)
            if options.html:
                files["page"] = write_html(folder / HTML_FILE, [folder])
            if not options.json:
                print_report(test, Console())
                print()
            print_files(test.to_json(), files, options.json)


class _KeepingProgress(LoadTestProgress):
    """Writes the result file after every step."""

    def __init__(self, test: LoadTest, folder: Path, expected: int | None) -> None:
        super().__init__(test, display_on(Console(stderr=True)), expected)
        self._folder = folder
        self._kept = test

    def end_step(self, step: Step) -> None:
        """Write the result file and show the step."""
        _write_result(self._kept, self._folder)
        super().end_step(step)


def _write_files(test: LoadTest, folder: Path, *, plots: bool) -> Files:
    """Write the result, the report and the pictures; return the names of the files."""
    files: Files = {
        "result": str(_write_result(test, folder)),
        "report": str(folder / REPORT),
    }
    pictures: list[str] = []
    if plots:
        from octofold_client.loadtest.pictures import draw

        pictures = draw(folder, test)
    write_text(folder / REPORT, markdown(test, pictures))
    return files | {"pictures": [str(folder / name) for name in pictures]}


def _write_result(test: LoadTest, folder: Path) -> Path:
    file = folder / FILE
    write_text(file, json.dumps(test.to_json(), indent=1) + "\n")
    return file


def _setup(
    target: str, options: Options, served: ServedModel, server_version: str | None, boards_from: str
) -> Setup:
    return Setup(
        target=target,
        model=served.model,
        version=served.version.version,
        precision=served.version.precision,
        sha256=served.sha256,
        server_version=server_version,
        form=str(options.form),
        boards_a_call=options.form.boards,
        boards_from=boards_from,
        processes=options.processes,
        seed=options.seed,
        timeout_seconds=options.timeout,
        plan=options.plan,
    )


def _folder(out: Path | None, setup: Setup, options: Options) -> Path:
    """The folder of --out, or the first of NAME, NAME-2, NAME-3 ... that contains no result.

    Raises:
        EvaluationError: the folder contains an evaluation or cannot be written.
    """
    form = setup.form.replace(":", "")
    name = f"loadtest-{name_in_folder(setup.model)}-v{setup.version}-{form}-{options.kind}"
    folder = out or next(each for each in result_folders(name) if not (each / FILE).exists())
    if ResultFolder(folder).conditions() is not None:
        raise EvaluationError(f"{folder} contains an evaluation; choose another folder with --out")
    check_writable(folder)
    return folder


COMMAND = Command(
    "loadtest",
    "measure throughput and latency of servers under load",
    "Loads one or more servers step by step, each step until three windows agree, and prints "
    "rates and latencies. Ctrl-C ends the test and keeps the results so far.",
    Options,
    loadtest,
)
