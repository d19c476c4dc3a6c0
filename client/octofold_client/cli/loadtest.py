"""`octofold loadtest`: measures throughput and latency of a server under load.

It prints the table to standard output and progress to standard error, and writes the result into a folder
after every step.
"""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
from octofold_game.commands.options import Folder, Kind, WrongValue, option
from octofold_game.commands.subcommands import Command
from octofold_game.rules import LARGEST_EXPONENT
from rich.console import Console

from octofold_client.cli.game_flags import name_in_folder, result_folders
from octofold_client.cli.shared_flags import (
    Files,
    JsonFlag,
    ModelFlags,
    ServerFlags,
    name_and_version,
    print_files,
)
from octofold_client.errors import EvaluationError, UsageError
from octofold_client.evaluation.interrupts import DeferredInterrupts
from octofold_client.evaluation.result_folder import ResultFolder, check_writable
from octofold_client.extras import require_extra
from octofold_client.loadtest.boards import played_boards
from octofold_client.loadtest.forms import Form, Task
from octofold_client.loadtest.loads import Closed, Open
from octofold_client.loadtest.result import FILE, Limit, LoadTest, tables
from octofold_client.loadtest.run import LoadTestRun
from octofold_client.loadtest.server_counters import ServerStatistics
from octofold_client.loadtest.workers import load_windows
from octofold_client.provenance import Provenance
from octofold_client.rpc.targets import server_count
from octofold_client.terminal.display import display_on
from octofold_client.terminal.markdown import print_markdown

MOST_CALLERS, MOST_PROCESSES, MOST_RATE = 65_536, 256, 1e6
MOST_STEPS = 1000
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_NUMBER = r"[0-9]*\.?[0-9]+"
_TIME = re.compile(rf"(?P<number>{_NUMBER})(?P<unit>us|ms|s)")
_LEVELS = re.compile(rf"(?P<first>{_NUMBER})(:(?P<end>{_NUMBER}):(?P<step>{_NUMBER})(?P<factor>x?))?")
_LIMIT = re.compile(rf"(max|p(?P<percent>{_NUMBER}))=(?P<time>.*)")


def levels(text: str, most: float = MOST_RATE) -> list[float]:
    """Parse numbers of callers or rates: "1,4,16", "4:16:4" (4, 8, 12, 16) or "1:128:2x" (1, 2, 4 ... 128).

    Each number must be above 0 and at most `most`. A range includes its end if a step reaches it.
    """
    found: list[float] = []
    for part in text.split(","):
        match = _LEVELS.fullmatch(part)
        if match is None:
            raise WrongValue(f"a level must be a number, or a range such as 4:16:4 or 1:128:2x, got {part}")
        first, end, step = float(match["first"]), float(match["end"] or match["first"]), match["step"]
        if not (first > 0 and end <= most):
            raise WrongValue(f"a level must be above 0 and at most {most:,.0f}, got {part}")
        if end < first:
            raise WrongValue(f"a range must not end below its start, got {part}")
        growth, least = float(step or 2), 1 if match["factor"] else 0
        if growth <= least:
            raise WrongValue(f"the step of a range must be above {least:g}, got {part}")
        value, number = first, 0
        while value <= end * (1 + 1e-9):
            if len(found) == MOST_STEPS:
                raise WrongValue(f"there must be at most {MOST_STEPS:,} levels, got {text}")
            found.append(value)
            number += 1
            value = value * growth if match["factor"] else first + number * growth
    return found


def concurrencies(text: str) -> list[int]:
    """Parse numbers of callers in the form that `levels` describes; all must be whole numbers."""
    found = levels(text, MOST_CALLERS)
    for value in found:
        if value != int(value):
            raise WrongValue(f"the number of callers must be a whole number, got {value:g} in {text}")
    return [int(value) for value in found]


def limit(text: str) -> Limit:
    """Parse a latency limit pN=TIME, such as p99.9=250ms; max=TIME means p100=TIME."""
    match = _LIMIT.fullmatch(text)
    percent = float(match["percent"] or 100) if match else 0.0
    if match is None or not 0 < percent <= 100:
        raise WrongValue(f"a limit must be a percentile and a time, such as p99=20ms, got {text}")
    return Limit(percent, duration(match["time"]) * 1e3)


def duration(text: str) -> float:
    """Parse a time above 0, such as 300us, 20ms or 1.5s, and return it in seconds."""
    match = _TIME.fullmatch(text)
    if match is None or not float(match["number"]):
        raise WrongValue(f"a time must be above 0 and have a unit, such as 20ms or 1.5s, got {text!r}")
    return float(match["number"]) * _UNITS[match["unit"]]


Callers = Annotated[list[int], Kind(concurrencies, "levels", "LEVELS", is_plain=True)]
Rates = Annotated[list[float], Kind(levels, "levels", "LEVELS", is_plain=True)]
Slo = Annotated[Limit, Kind(limit, "a limit", "pN=TIME", is_plain=True)]
Time = Annotated[float, Kind(duration, "a time", "TIME", is_plain=True)]
CallForm = Annotated[Form, Kind(Form.parse, "a form", "FORM", is_plain=True)]


@dataclass(kw_only=True)
class Options(JsonFlag, ModelFlags, ServerFlags):
    """Options of `octofold loadtest`."""

    concurrency: Callers = option(
        [1, 2, 4, 8, 16, 32, 64, 128],
        "number of callers (closed loop): each waits for an answer before its next call. Give a number, a "
        "list such as 1,4,16, or a range: 4:16:4 adds 4, 1:128:2x doubles (default: 1:128:2x)",
        exclusive_group="load",
    )
    rate: Rates = option(
        [],
        "calls per second (open loop), sent at even intervals without waiting for answers; a number, list or "
        "range as for --concurrency",
        exclusive_group="load",
    )
    slo: Slo | None = option(
        None,
        "search for the highest rate that meets this latency limit, such as p99=20ms, without errors",
        exclusive_group="load",
    )
    processes: int = option(
        1, "number of load-generating processes, each with its own connection", 1, MOST_PROCESSES
    )
    ramp: Time = option(1.0, "time for the load to grow to its full size; not measured (default: 1s)")
    window: Time = option(2.0, "length of one measurement window (default: 2s)")
    windows: int = option(
        10,
        "maximum number of windows per load; measuring a load ends earlier if three windows agree",
        1,
        MOST_STEPS,
    )
    timeout: Time = option(10.0, "timeout of each call (default: 10s)")
    form: CallForm = option(
        Form("unary"),
        "form of the calls: unary, packed:N (N boards per call), or stream:N (N boards per message)",
    )
    out: Folder | None = option(None, "write the result into this folder (default: a new folder in results)")
    plots: bool = option(False, "save a picture of latency against load (needs the extra `plots`)")


def loadtest(options: Options) -> None:
    """Measure the requested loads, or search for the highest rate, and print the result.

    The steps measured so far are kept, even if an error or Ctrl-C ends the test.

    Raises:
        UsageError: the flags contradict each other.
        LoadTestError: the test cannot start or continue.
        EvaluationError: the folder contains an evaluation or cannot be written, or an extra is missing.
        OctofoldError: the server cannot be reached or does not have the model.
    """
    if options.plots:
        with require_extra("plots"):
            from octofold_client.loadtest.picture import draw
    test, task = _prepare(options)
    folder = _folder(test, options)
    try:
        with (
            DeferredInterrupts() as interrupts,
            ServerStatistics(test.target, test.model, test.version, task.credentials) as statistics,
            display_on(Console(stderr=True)) as display,
        ):
            windows = partial(load_windows, task, processes=options.processes, while_waiting=interrupts.check)
            run = LoadTestRun(test, folder, windows, statistics.read, display)
            if options.slo is not None:
                run.search()
            else:
                run.sweep(list(map(Open, options.rate)) or list(map(Closed, options.concurrency)))
    finally:
        if test.steps:
            test.write(folder)
            if not options.json:
                print_markdown(tables(test), Console())
                print()
            files: Files = {"result": str(folder / FILE)}
            if options.plots:
                files["pictures"] = [str(folder / name) for name in draw(test, folder)]
            print_files(msgspec.to_builtins(test), files, options.json)


def _prepare(options: Options) -> tuple[LoadTest, Task]:
    """Connect and select the model. Return a load test without steps, and the task that makes its calls."""
    credentials, requested = options.credentials(), name_and_version(options.model, options.version)
    if options.form.name == "stream" and server_count(",".join(options.targets)) > 1:
        raise UsageError(
            "--form stream needs a single server, because a stream stays with the server on which it began"
        )
    with options.servers() as found:
        served = found.select(*requested)
        server_version, target = found.client.server_version(), found.target
    model, version = served.model, served.version.version
    boards = played_boards(served.largest_exponent or LARGEST_EXPONENT)
    test = LoadTest(
        target=target,
        model=model,
        version=version,
        precision=served.version.precision,
        sha256=served.sha256,
        server_version=server_version,
        form=str(options.form),
        boards_a_call=options.form.boards,
        processes=options.processes,
        timeout_seconds=options.timeout,
        ramp_seconds=options.ramp,
        window_seconds=options.window,
        most_windows=options.windows,
        run=Provenance.now(),
        limit=options.slo,
    )
    return test, Task(target, model, version, options.form, boards, options.timeout, credentials)


def _folder(test: LoadTest, options: Options) -> Path:
    """Return the folder of --out, or the first of NAME, NAME-2, NAME-3 ... that contains no load test.

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
    "Sends calls to one or more servers, one load after the other, and prints rates and latencies. Each load "
    "is measured for --windows windows or until three agree. Ctrl-C ends the test and keeps all results.",
    Options,
    loadtest,
    examples=(
        "--model flagship",
        "--model swift --form packed:64 --concurrency 4",
        "--rate 500,1000 --windows 10",
    ),
)
