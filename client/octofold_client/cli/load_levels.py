"""The flags of `octofold loadtest`, the parsers of their values, and the resulting options."""

import argparse
import functools
import re
from pathlib import Path

from octofold_client.cli.arguments import count, seed
from octofold_client.errors import InvalidRequest, LoadTestError, UsageError
from octofold_client.evaluation.result_folder import replays_of
from octofold_client.loadtest.forms import Form
from octofold_client.loadtest.options import LoadTestOptions
from octofold_client.loadtest.steps import Limit, Plan

MOST_CALLERS, MOST_PROCESSES, MOST_RATE = 65_536, 256, 1e6
MOST_STEPS = 1000
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_TIME = re.compile(r"(?P<number>[0-9]*\.?[0-9]+)(?P<unit>us|ms|s)")
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that only a load test has."""
    _add_loads(parser)
    _add_measurement(parser)
    parser.add_argument(
        "--form",
        type=form,
        default=Form("unary"),
        metavar="FORM",
        help="form of the calls: unary, packed:N (N boards per call), stream:N, or oip:N (Open Inference "
        "Protocol) (default: unary)",
    )
    parser.add_argument(
        "--boards",
        type=Path,
        metavar="FILE",
        help="replay file or result folder to take the boards from (default: games of a greedy player)",
    )
    parser.add_argument(
        "--games",
        action="store_true",
        help="let each caller play its own games, as many at a time as the form has boards per call",
    )
    parser.add_argument(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="seed of boards, games and arrivals (default: %(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the result (default: a new folder in results)"
    )
    parser.add_argument("--plots", action="store_true", help="save pictures, too (needs the extra plots)")


def _add_loads(parser: argparse.ArgumentParser) -> None:
    load = parser.add_mutually_exclusive_group()
    load.add_argument(
        "--concurrency",
        type=concurrencies,
        metavar="LEVELS",
        help="closed loop: number of callers, each of which sends its next call after an answer. A number, a "
        "list such as 1,4,16, or a range: 4:16:4 adds 4, 1:128:2x doubles (default: 1:128:2x)",
    )
    load.add_argument(
        "--rate",
        type=rates,
        metavar="LEVELS",
        help="open loop: calls per second, sent without waiting for answers; levels as above",
    )
    load.add_argument(
        "--slo",
        type=limit,
        metavar="pN=TIME",
        help="search for the highest rate that keeps this latency limit without an error, such as p99=20ms",
    )
    parser.add_argument(
        "--arrivals",
        choices=("poisson", "constant"),
        default="poisson",
        help="spread the calls of an open loop at random or evenly (default: %(default)s)",
    )
    parser.add_argument(
        "--think",
        type=duration,
        default=0.0,
        metavar="TIME",
        help="average pause of a caller before each call, such as 50ms (default: 0s)",
    )
    parser.add_argument(
        "--processes",
        type=functools.partial(count, most=MOST_PROCESSES),
        default=1,
        metavar="N",
        help="number of load-generating processes, each with its own connection (default: %(default)s)",
    )


def _add_measurement(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ramp",
        type=duration,
        default=1.0,
        metavar="TIME",
        help="time for the load to grow to its full size; not measured (default: 1s)",
    )
    parser.add_argument(
        "--window",
        type=positive_duration,
        default=2.0,
        metavar="TIME",
        help="length of one measurement window (default: 2s)",
    )
    parser.add_argument(
        "--windows",
        type=functools.partial(count, most=MOST_STEPS),
        default=10,
        metavar="N",
        help="maximum windows per step; a step ends earlier once three windows agree (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=positive_duration,
        default=10.0,
        metavar="TIME",
        help="deadline of a call (default: 10s)",
    )


def options_of(flags: argparse.Namespace) -> LoadTestOptions:
    """The options from the flags of `add_arguments`.

    Raises:
        UsageError: the options contradict each other.
        EvaluationError: the file of boards does not exist.
    """
    levels = {"concurrency": tuple(flags.concurrency)} if flags.concurrency else {}
    replays = None if flags.boards is None else replays_of(flags.boards)
    try:
        return LoadTestOptions(
            **levels,
            rates=tuple(flags.rate or ()),
            limit=flags.slo,
            poisson=flags.arrivals == "poisson",
            think_seconds=flags.think,
            form=flags.form,
            games=flags.games,
            replays=replays,
            processes=flags.processes,
            plan=Plan(flags.ramp, flags.window, flags.windows),
            timeout_seconds=flags.timeout,
            seed=flags.seed,
        )
    except LoadTestError as error:
        raise UsageError(str(error)) from None


def concurrencies(text: str) -> list[int]:
    """The whole numbers that a text of levels means."""
    found = levels(text, MOST_CALLERS)
    for value in found:
        if value != int(value):
            raise argparse.ArgumentTypeError(f"{text}: {value:g} is not a whole number of callers")
    return [int(value) for value in found]


def rates(text: str) -> list[float]:
    """The rates, in calls per second, that a text of levels means."""
    return levels(text, MOST_RATE)


def levels(text: str, most: float) -> list[float]:
    """The numbers that a text such as 8, 1,4,16, 4:16:4 (adding) or 1:128:2x (multiplying) means.

    Each is above 0 and at most `most`. A range includes its end if a step reaches it.
    """
    found: list[float] = []
    for part in text.split(","):
        first, *rest = part.split(":")
        start = _level(first, part, most)
        if not rest:
            found.append(start)
            continue
        if len(rest) != 2:
            raise argparse.ArgumentTypeError(f"{part} is not a range such as 4:16:4 or 1:128:2x")
        end, step = _level(rest[0], part, most), _level(rest[1].removesuffix("x"), part, most)
        found += _range(part, start, end, step, multiply=rest[1].endswith("x"))
    if len(found) > MOST_STEPS:
        raise argparse.ArgumentTypeError(f"{text} has more than {MOST_STEPS:,} levels")
    return found


def limit(text: str) -> Limit:
    """The limit that pN=TIME means, such as p99.9=250ms; max=TIME is p100=TIME."""
    name, equals, time = text.partition("=")
    percent = "100" if name == "max" else name.removeprefix("p") if name.startswith("p") else ""
    if not equals or not _NUMBER.fullmatch(percent) or not 0 < float(percent) <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not a limit such as p99=20ms")
    return Limit(float(percent), positive_duration(time) * 1e3)


def form(text: str) -> Form:
    """The form that `Form.parse` reads."""
    try:
        return Form.parse(text)
    except InvalidRequest as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def duration(text: str) -> float:
    """The seconds that a text such as 300us, 20ms or 1.5s means."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 20ms or 1.5s")
    return float(match["number"]) * _UNITS[match["unit"]]


def positive_duration(text: str) -> float:
    """The seconds, which must be above 0."""
    seconds = duration(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return seconds


def _range(text: str, start: float, end: float, step: float, multiply: bool) -> list[float]:
    if end < start:
        raise argparse.ArgumentTypeError(f"{text} ends below its start")
    if multiply and step <= 1:
        raise argparse.ArgumentTypeError(f"{text}: {step:g}x does not grow")
    found: list[float] = []
    value = start
    while value <= end * (1 + 1e-9) and len(found) <= MOST_STEPS:
        found.append(value)
        value = value * step if multiply else start + len(found) * step
    return found


def _level(text: str, part: str, most: float) -> float:
    if not _NUMBER.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{part}: {text!r} is not a number above 0")
    if not 0 < float(text) <= most:
        raise argparse.ArgumentTypeError(f"{part}: {text} is not above 0 and at most {most:,.0f}")
    return float(text)
