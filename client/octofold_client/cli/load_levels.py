"""The command line of `octofold loadtest`: its flags, and how their values are written.

What is wrong with a value is said in the terms of the flag. Knows nothing about what is done with it.
"""

import argparse
import functools
import re
from pathlib import Path

from octofold_client.errors import InvalidRequest, LoadTestError
from octofold_client.loadtest.forms import Form
from octofold_client.loadtest.steps import Limit

MOST_CALLERS, MOST_PROCESSES, MOST_RATE = 65_536, 256, 1e6
MOST_STEPS = 1000
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_TIME = re.compile(r"(?P<number>[0-9]*\.?[0-9]+)(?P<unit>us|ms|s)")
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that only a load test has."""
    load = parser.add_mutually_exclusive_group()
    load.add_argument(
        "--concurrency",
        type=concurrencies,
        metavar="LEVELS",
        help="closed loop: so many callers, each of which asks again when it is answered. A number, a list "
        "such as 1,4,16, or a range: 4:16:4 in steps of 4, 1:128:2x doubling (the default)",
    )
    load.add_argument(
        "--rate",
        type=rates,
        metavar="LEVELS",
        help="open loop: so many calls a second, sent whether or not those before are answered; written "
        "as above",
    )
    load.add_argument(
        "--slo",
        type=limit,
        metavar="pN=TIME",
        help="search for the highest rate that holds this, such as p99=20ms, without an error",
    )
    parser.add_argument(
        "--form",
        type=form,
        default=Form("unary"),
        metavar="FORM",
        help="unary, packed:N (N boards a call), stream:N, oip:N (Open Inference Protocol) (default unary)",
    )
    parser.add_argument(
        "--arrivals",
        choices=("poisson", "constant"),
        default="poisson",
        help="of an open loop: at random, or at equal distances (default %(default)s)",
    )
    parser.add_argument(
        "--games",
        action="store_true",
        help="every caller plays games of its own, as many at a time as the form has boards, as "
        "evaluations do",
    )
    parser.add_argument(
        "--think",
        type=duration,
        default=0.0,
        metavar="TIME",
        help="how long a caller thinks before each call, on average, such as 50ms (default none)",
    )
    parser.add_argument(
        "--boards",
        type=Path,
        metavar="FILE",
        help="a replay file or a folder of results, whose positions are asked about (default: those "
        "of a greedy player's games)",
    )
    parser.add_argument(
        "--processes",
        type=functools.partial(_whole, most=MOST_PROCESSES),
        default=1,
        metavar="N",
        help="that make the load together, each with a connection (default %(default)s)",
    )
    parser.add_argument(
        "--ramp", type=duration, default=1.0, metavar="TIME", help="until the load is full (default 1s)"
    )
    parser.add_argument(
        "--window",
        type=positive_duration,
        default=2.0,
        metavar="TIME",
        help="of one measurement (default 2s)",
    )
    parser.add_argument(
        "--windows",
        type=functools.partial(_whole, most=MOST_STEPS),
        default=10,
        metavar="N",
        help="after which a step ends whose last three do not agree (default %(default)s)",
    )
    parser.add_argument(
        "--timeout", type=positive_duration, default=10.0, metavar="TIME", help="of a call (default 10s)"
    )
    parser.add_argument(
        "--seed",
        type=functools.partial(_whole, most=2**64 - 1, least=0),
        default=0,
        metavar="N",
        help="fixes boards, games and random arrivals (default %(default)s)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the result goes (default: in results)")
    parser.add_argument("--plots", action="store_true", help="draw pictures, too (needs the extra plots)")


def check_together(options: argparse.Namespace) -> None:
    """Raises `LoadTestError` for flags that contradict each other."""
    open_loop = "--rate" if options.rate else "--slo" if options.slo else ""
    if open_loop and (options.games or options.think):
        asked = "--games" if options.games else "--think"
        raise LoadTestError(
            f"{asked} is for callers who wait for their answers; {open_loop} has none, use --concurrency"
        )
    if options.games and options.boards:
        raise LoadTestError("--games makes its own boards; --boards is for a test without it")


def concurrencies(text: str) -> list[int]:
    """Levels that are whole numbers."""
    found = levels(text, MOST_CALLERS)
    for value in found:
        if value != int(value):
            raise argparse.ArgumentTypeError(f"{text}: {value:g} is not a whole number of callers")
    return [int(value) for value in found]


def rates(text: str) -> list[float]:
    """Levels that are calls a second."""
    return levels(text, MOST_RATE)


def levels(text: str, most: float) -> list[float]:
    """The numbers that 8, 1,4,16, 4:16:4 (adding) and 1:128:2x (multiplying) mean; the end of a range is
    included where it is met. Each is above 0 and at most `most`.
    """
    found: list[float] = []
    for part in text.split(","):
        first, *rest = part.split(":")
        start = _level(first, part, most)
        if not rest:
            found.append(start)
            continue
        if len(rest) != 2:
            raise argparse.ArgumentTypeError(f"{part} is no range such as 4:16:4 or 1:128:2x")
        end, step = _level(rest[0], part, most), _level(rest[1].removesuffix("x"), part, most)
        found += _range(part, start, end, step, multiply=rest[1].endswith("x"))
    if len(found) > MOST_STEPS:
        raise argparse.ArgumentTypeError(f"{text} has more than {MOST_STEPS:,} levels")
    return found


def limit(text: str) -> Limit:
    """Of pN=TIME, such as p99.9=250ms; max=TIME means p100."""
    name, equals, time = text.partition("=")
    percent = "100" if name == "max" else name.removeprefix("p") if name.startswith("p") else ""
    if not equals or not _NUMBER.fullmatch(percent) or not 0 < float(percent) <= 100:
        raise argparse.ArgumentTypeError(f"{text} is no limit such as p99=20ms")
    return Limit(float(percent), positive_duration(time) * 1e3)


def form(text: str) -> Form:
    """What `Form.parse` reads."""
    try:
        return Form.parse(text)
    except InvalidRequest as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def duration(text: str) -> float:
    """Seconds of 300us, 20ms, 1.5s."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 20ms or 1.5s")
    return float(match["number"]) * _UNITS[match["unit"]]


def positive_duration(text: str) -> float:
    """The same, above 0."""
    seconds = duration(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text} is no time at all")
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


def _whole(text: str, most: int, least: int = 1) -> int:
    if not text.isdecimal() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text} is not a number from {least} to {most:,}")
    return int(text)
