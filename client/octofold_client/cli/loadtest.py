"""`octofold loadtest`: measures throughput and latency of a server under load.

It prints the table to standard output and progress to standard error, and writes the result into a folder
after every step.
"""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from octofold_game.commands.options import Folder, Kind, Seed, WrongValue, option
from octofold_game.commands.subcommands import Command
from octofold_game.rules import LARGEST_EXPONENT
from rich.console import Console

from octofold_client.cli.arguments import ModelFlags, ServerFlags, asked_for, name_in_folder, result_folders
from octofold_client.cli.html_report import HTML_FILE, HtmlFlag, write_html
from octofold_client.cli.json_output import Files, JsonFlag, print_files
from octofold_client.errors import EvaluationError, InvalidRequest, UsageError
from octofold_client.evaluation.result_folder import ResultFolder, check_writable, replays_of
from octofold_client.extras import needing
from octofold_client.loadtest.boards import played_boards, replayed_boards
from octofold_client.loadtest.forms import Form
from octofold_client.loadtest.loads import Closed, Load, Open
from octofold_client.loadtest.result import FILE, REPORT, LoadTest, tables
from octofold_client.loadtest.search import LoadTestRun
from octofold_client.loadtest.statistics import ServerStatistics
from octofold_client.loadtest.steps import Limit, Plan
from octofold_client.loadtest.workers import Task, Workers
from octofold_client.provenance import Provenance
from octofold_client.terminal.display import display_on
from octofold_client.terminal.interrupts import DeferredInterrupts
from octofold_client.terminal.tables import print_markdown

MOST_CALLERS, MOST_PROCESSES, MOST_RATE = 65_536, 256, 1e6
MOST_STEPS = 1000
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_TIME = re.compile(r"(?P<number>[0-9]*\.?[0-9]+)(?P<unit>us|ms|s)")
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+")


def levels(text: str, most: float = MOST_RATE) -> list[float]:
    """The numbers that a text such as 8, 1,4,16, 4:16:4 (adding) or 1:128:2x (multiplying) means.

    Each is above 0 and at most `most`. A range includes its end if a step reaches it.
    """
    found: list[float] = []
    for part in text.split(","):
        words = part.removesuffix("x").split(":")
        if len(words) not in (1, 3):
            raise WrongValue(f"{part} is not a range such as 4:16:4 or 1:128:2x")
        value, end, step = [_level(word, part, most) for word in words] * (3 // len(words))
        multiply = part.endswith("x")
        if end < value:
            raise WrongValue(f"{part} ends below its start")
        if multiply and step <= 1:
            raise WrongValue(f"{part}: {step:g}x does not grow")
        first, number = value, 0
        while value <= end * (1 + 1e-9) and len(found) <= MOST_STEPS:
            found.append(value)
            number += 1
            value = value * step if multiply else first + number * step
    if len(found) > MOST_STEPS:
        raise WrongValue(f"{text} has more than {MOST_STEPS:,} levels")
    return found


def _level(text: str, part: str, most: float) -> float:
    if not _NUMBER.fullmatch(text):
        raise WrongValue(f"{part}: {text!r} is not a number above 0")
    if not 0 < float(text) <= most:
        raise WrongValue(f"{part}: {text} is not above 0 and at most {most:,.0f}")
    return float(text)


def concurrencies(text: str) -> list[int]:
    """The whole numbers that a text of levels means."""
    found = levels(text, MOST_CALLERS)
    for value in found:
        if value != int(value):
            raise WrongValue(f"{text}: {value:g} is not a whole number of callers")
    return [int(value) for value in found]


def limit(text: str) -> Limit:
    """The limit that pN=TIME means, such as p99.9=250ms; max=TIME is p100=TIME."""
    name, equals, time = text.partition("=")
    percent = "100" if name == "max" else name.removeprefix("p") if name.startswith("p") else ""
    if not equals or not _NUMBER.fullmatch(percent) or not 0 < float(percent) <= 100:
        raise WrongValue(f"{text} is not a limit such as p99=20ms")
    return Limit(float(percent), positive_duration(time) * 1e3)


def form(text: str) -> Form:
    """The form that `Form.parse` reads."""
    try:
        return Form.parse(text)
    except InvalidRequest as error:
        raise WrongValue(str(error)) from None


def duration(text: str) -> float:
    """The seconds that a text such as 300us, 20ms or 1.5s means."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise WrongValue(f"{text!r} is not a time such as 20ms or 1.5s")
    return float(match["number"]) * _UNITS[match["unit"]]


def positive_duration(text: str) -> float:
    """The seconds, which must be above 0."""
    seconds = duration(text)
    if not seconds:
        raise WrongValue(f"{text} is not above 0")
    return seconds


Callers = Annotated[list[int], Kind(concurrencies, "levels", "LEVELS", is_plain=True)]
Rates = Annotated[list[float], Kind(levels, "levels", "LEVELS", is_plain=True)]
Slo = Annotated[Limit, Kind(limit, "a limit", "pN=TIME", is_plain=True)]
Time = Annotated[float, Kind(duration, "a time", "TIME", is_plain=True)]
PositiveTime = Annotated[float, Kind(positive_duration, "a time", "TIME", is_plain=True)]
CallForm = Annotated[Form, Kind(form, "a form", "FORM", is_plain=True)]


@dataclass(kw_only=True)
class Options(JsonFlag, HtmlFlag, ModelFlags, ServerFlags):
    """Its options."""

    concurrency: Callers = option(
        [1, 2, 4, 8, 16, 32, 64, 128],
        "closed loop: number of callers, each of which sends its next call after an answer. A number, a list "
        "such as 1,4,16, or a range: 4:16:4 adds 4, 1:128:2x doubles (default: 1:128:2x)",
        alone="load",
    )
    rate: Rates = option(
        [],
        "open loop: calls per second, sent without waiting for answers; levels as above",
        alone="load",
    )
    slo: Slo | None = option(
        None,
        "search for the highest rate that keeps this latency limit without an error, such as p99=20ms",
        alone="load",
    )
    arrivals: Literal["poisson", "constant"] = option(
        "poisson", "spread the calls of an open loop at random or evenly"
    )
    think: Time = option(0.0, "average pause of a caller before each call, such as 50ms (default: 0s)")
    processes: int = option(
        1, "number of load-generating processes, each with its own connection", 1, MOST_PROCESSES
    )
    ramp: Time = option(1.0, "time for the load to grow to its full size; not measured (default: 1s)")
    window: PositiveTime = option(2.0, "length of one measurement window (default: 2s)")
    windows: int = option(
        10, "maximum windows per step; a step ends earlier once three windows agree", 1, MOST_STEPS
    )
    timeout: PositiveTime = option(10.0, "deadline of a call (default: 10s)")
    form: CallForm = option(
        Form("unary"),
        "form of the calls: unary, packed:N (N boards per call), stream:N, or oip:N (Open Inference "
        "Protocol)",
    )
    boards: Path | None = option(
        None, "replay file or result folder to take the boards from (default: games of a greedy player)"
    )
    seed: Seed = option(0, "seed of boards and arrivals", metavar="N")
    out: Folder | None = option(None, "folder for the result (default: a new folder in results)")
    plots: bool = option(False, "save pictures, too (needs the extra plots)")

    @property
    def loads(self) -> list[Load]:
        """The loads of a sweep.

        Raises:
            UsageError: the flags contradict each other.
        """
        if self.think and (self.rate or self.slo):
            raise UsageError(
                "--think needs callers that wait for their answers: use it with --concurrency, not with "
                "--rate or --slo"
            )
        if self.rate:
            return [Open(rate, self.is_poisson) for rate in self.rate]
        return [Closed(callers, self.think) for callers in self.concurrency]

    @property
    def is_poisson(self) -> bool:
        """Whether an open loop sends its calls at random times."""
        return self.arrivals == "poisson"


def loadtest(options: Options) -> None:
    """Measure the loads that the flags name, or search for the highest rate, and print the result.

    The steps measured so far are kept, whatever ends the test.

    Raises:
        UsageError: the flags contradict each other.
        LoadTestError: the test cannot start or continue.
        EvaluationError: the folder or the file of boards is not usable.
        OctofoldError: the server cannot be reached or does not have the model.
    """
    loads = options.loads
    # Fail before minutes of work, not after them.
    options.check_html()
    if options.plots:
        with needing("plots"):
            from octofold_client.loadtest.pictures import draw
    test, task = _prepared(options)
    folder = _folder(test, options)
    try:
        with (
            DeferredInterrupts() as interrupts,
            Workers(task, options.processes, interrupts.check) as workers,
            ServerStatistics(test.target, test.model, test.version, task.credentials) as statistics,
            display_on(Console(stderr=True)) as display,
        ):
            run = LoadTestRun(test, folder, workers.windows, statistics.read, display)
            if options.slo is not None:
                run.search(poisson=options.is_poisson)
            else:
                run.sweep(loads)
    finally:
        if test.steps:
            pictures = draw(folder, test) if options.plots else []
            test.write(folder, pictures)
            files: Files = {"result": str(folder / FILE), "report": str(folder / REPORT)}
            files["pictures"] = [str(folder / name) for name in pictures]
            if options.html:
                files["page"] = write_html(folder / HTML_FILE, [folder])
            if not options.json:
                print_markdown(tables(test), Console())
                print()
            print_files(msgspec.to_builtins(test), files, options.json)


def _prepared(options: Options) -> tuple[LoadTest, Task]:
    """The test without steps, and the calls that it makes."""
    credentials, asked = options.credentials(), asked_for(options.model, options.version)
    replays = None if options.boards is None else replays_of(options.boards)
    with options.servers() as found:
        served = found.select(*asked)
        server_version, target = found.client.server_version(), found.target
    model, version, seed = served.model, served.version.version, options.seed
    largest = served.largest_exponent or LARGEST_EXPONENT
    if replays is None:
        boards = played_boards(largest, seed=seed)
        boards_from = "positions of a greedy player's games"
    else:
        boards = replayed_boards(replays, largest, seed)
        boards_from = f"positions of the games in {replays}"
    test = LoadTest(
        target=target,
        model=model,
        version=version,
        precision=served.version.precision,
        sha256=served.sha256,
        server_version=server_version,
        form=str(options.form),
        boards_a_call=options.form.boards,
        boards_from=boards_from,
        processes=options.processes,
        seed=seed,
        timeout_seconds=options.timeout,
        **asdict(Plan(options.ramp, options.window, options.windows)),
        run=Provenance.now(),
        limit=options.slo,
    )
    return test, Task(target, model, version, options.form, boards, seed, options.timeout, credentials)


def _folder(test: LoadTest, options: Options) -> Path:
    """The folder of --out, or the first of NAME, NAME-2, NAME-3 ... that contains no result.

    Raises:
        EvaluationError: the folder contains an evaluation or cannot be written.
    """
    kind = "slo" if options.slo is not None else "rate" if options.rate else "concurrency"
    name = f"loadtest-{name_in_folder(test.model)}-v{test.version}-{test.form.replace(':', '')}-{kind}"
    folder = options.out or next(each for each in result_folders(name) if not (each / FILE).exists())
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
    examples=(
        "--model flagship",
        "--model swift --form packed:64 --concurrency 4",
        "--rate 500,1000 --windows 10 --html",
    ),
)
