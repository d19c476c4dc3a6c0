"""The flags of `octofold loadtest`, the parsers of their values, and the loads and boards that they mean."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from octofold_game.commands.options import Folder, Kind, Seed, WrongValue, option

from octofold_client.errors import InvalidRequest, UsageError
from octofold_client.evaluation.result_folder import replays_of
from octofold_client.loadtest.boards import Boards, played_boards, replayed_boards
from octofold_client.loadtest.forms import Form
from octofold_client.loadtest.loads import Closed, Load, Open
from octofold_client.loadtest.steps import Limit, Plan

MOST_CALLERS, MOST_PROCESSES, MOST_RATE = 65_536, 256, 1e6
MOST_STEPS = 1000
DEFAULT_CALLERS = (1, 2, 4, 8, 16, 32, 64, 128)
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_TIME = re.compile(r"(?P<number>[0-9]*\.?[0-9]+)(?P<unit>us|ms|s)")
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+")


def concurrencies(text: str) -> list[int]:
    """The whole numbers that a text of levels means."""
    found = levels(text, MOST_CALLERS)
    for value in found:
        if value != int(value):
            raise WrongValue(f"{text}: {value:g} is not a whole number of callers")
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
            raise WrongValue(f"{part} is not a range such as 4:16:4 or 1:128:2x")
        end, step = _level(rest[0], part, most), _level(rest[1].removesuffix("x"), part, most)
        found += _range(part, start, end, step, multiply=rest[1].endswith("x"))
    if len(found) > MOST_STEPS:
        raise WrongValue(f"{text} has more than {MOST_STEPS:,} levels")
    return found


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


def _range(text: str, start: float, end: float, step: float, multiply: bool) -> list[float]:
    if end < start:
        raise WrongValue(f"{text} ends below its start")
    if multiply and step <= 1:
        raise WrongValue(f"{text}: {step:g}x does not grow")
    found: list[float] = []
    value = start
    while value <= end * (1 + 1e-9) and len(found) <= MOST_STEPS:
        found.append(value)
        value = value * step if multiply else start + len(found) * step
    return found


def _level(text: str, part: str, most: float) -> float:
    if not _NUMBER.fullmatch(text):
        raise WrongValue(f"{part}: {text!r} is not a number above 0")
    if not 0 < float(text) <= most:
        raise WrongValue(f"{part}: {text} is not above 0 and at most {most:,.0f}")
    return float(text)


Callers = Annotated[list[int], Kind(concurrencies, "levels", "LEVELS", is_plain=True)]
Rates = Annotated[list[float], Kind(rates, "levels", "LEVELS", is_plain=True)]
Slo = Annotated[Limit, Kind(limit, "a limit", "pN=TIME", is_plain=True)]
Time = Annotated[float, Kind(duration, "a time", "TIME", is_plain=True)]
PositiveTime = Annotated[float, Kind(positive_duration, "a time", "TIME", is_plain=True)]
CallForm = Annotated[Form, Kind(form, "a form", "FORM", is_plain=True)]


@dataclass(kw_only=True)
class LoadFlags:
    """What only a load test has."""

    concurrency: Callers = option(
        [],
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
        10,
        "maximum windows per step; a step ends earlier once three windows agree",
        1,
        MOST_STEPS,
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
    games: bool = option(
        False, "let each caller play its own games, as many at a time as the form has boards per call"
    )
    seed: Seed = option(0, "seed of boards, games and arrivals", metavar="N")
    out: Folder | None = option(None, "folder for the result (default: a new folder in results)")
    plots: bool = option(False, "save pictures, too (needs the extra plots)")

    def check_load(self) -> None:
        """Check that the flags fit each other, and find the replay file of `--boards`.

        Raises:
            UsageError: they contradict each other.
            EvaluationError: the file does not exist.
        """
        if (self.rate or self.slo) and (self.games or self.think):
            flag = "--games" if self.games else "--think"
            raise UsageError(
                f"{flag} needs callers that wait for their answers: use it with --concurrency, not with "
                "--rate or --slo"
            )
        if self.games and self.boards is not None:
            raise UsageError("--games and --boards exclude each other")
        if self.boards is not None:
            self.boards = replays_of(self.boards)

    @property
    def plan(self) -> Plan:
        """The length of a step."""
        return Plan(self.ramp, self.window, self.windows)

    @property
    def is_poisson(self) -> bool:
        """Whether an open loop sends its calls at random times."""
        return self.arrivals == "poisson"

    @property
    def loads(self) -> list[Load]:
        """The loads to run one after the other; not used with `--slo`."""
        if self.rate:
            return [Open(rate, self.is_poisson) for rate in self.rate]
        return [Closed(callers, self.think) for callers in self.concurrency or DEFAULT_CALLERS]

    @property
    def kind(self) -> str:
        """The kind of test in one word, for the name of its folder."""
        if self.slo is not None:
            return "slo"
        return "rate" if self.rate else "games" if self.games else "concurrency"

    def load_boards(self, largest_exponent: int) -> tuple[Boards | None, str]:
        """The boards `[M, 16]` and a description of their origin; None if the callers play games.

        Raises:
            LoadTestError: the replay file contains no board that the model accepts.
            ReplayError: the replay file is damaged.
            OSError: the replay file cannot be read.
        """
        if self.games:
            return None, f"games of seed {self.seed}, played during the test"
        if self.boards is None:
            return played_boards(largest_exponent, seed=self.seed), "positions of a greedy player's games"
        boards = replayed_boards(self.boards, largest_exponent, seed=self.seed)
        return boards, f"positions of the games in {self.boards}"
