"""The flags of `octofold loadtest`: how their values are written, and what is said of wrong ones."""

from collections.abc import Callable

import pytest
from octofold_client.cli import loadtest as arguments
from octofold_client.loadtest.forms import Form
from octofold_client.loadtest.loads import Closed, Open
from octofold_client.loadtest.result import Limit
from octofold_game.commands.command_line import Parser
from octofold_game.commands.options import WrongValue, read


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("8", [8]),
        ("1,4,16", [1, 4, 16]),
        ("1:128:2x", [1, 2, 4, 8, 16, 32, 64, 128]),
        ("4:17:4", [4, 8, 12, 16]),
        ("0.1:0.3:0.1,5", [0.1, 0.2, 0.3, 5]),
    ],
)
def test_levels_are_a_number_a_list_or_a_range(text: str, values: list[float]) -> None:
    assert arguments.levels(text) == pytest.approx(values)


MANY_DIGITS = "9" * 5000


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (arguments.levels, "0", "0 is not above 0 and at most 1,000,000"),
        (arguments.levels, "-5", "-5 is not a number, or a range such as 4:16:4 or 1:128:2x"),
        (
            arguments.levels,
            "10:1:2x",
            "10:1:2x ends below its start",
        ),
        (arguments.levels, "1:9:1x", "1:9:1x does not grow"),
        (arguments.levels, "1:9:0", "1:9:0 does not grow"),
        (arguments.levels, "1:1000000:1", "1:1000000:1 has more than 1,000 levels"),
        (arguments.concurrencies, "1.5", "1.5: 1.5 is not a whole number of callers"),
        (arguments.limit, "p99", "p99 is not a limit such as p99=20ms"),
        (arguments.limit, "p0=1s", "p0=1s is not a limit such as p99=20ms"),
        (arguments.limit, "p99=0ms", "'0ms' is not a time above 0 such as 20ms or 1.5s"),
        (Form.parse, "soap", "soap is not a form of call; use unary, packed, stream, such as packed:16"),
        pytest.param(
            Form.parse,
            f"packed:{MANY_DIGITS}",
            f"packed:{MANY_DIGITS}: '{MANY_DIGITS}' is not a number of boards from 1 to 65,536",
            id="more digits than int() takes",
        ),
        (Form.parse, "unary:2", "unary:2: a unary call has one board; use packed:2 for more"),
    ],
)
def test_a_flag_that_makes_no_sense_is_told_what_and_where(
    read: Callable[[str], object], text: str, message: str
) -> None:
    with pytest.raises(WrongValue) as failed:
        read(text)
    assert str(failed.value) == message


def options(*flags: str) -> arguments.Options:
    return read(arguments.Options, Parser(), flags)


def test_flags_mean_loads() -> None:
    assert options().loads == [Closed(1 << doublings) for doublings in range(8)]
    assert options("--concurrency", "2,4").loads == [Closed(2), Closed(4)]
    assert options("--rate", "5").loads == [Open(5)]
    assert options("--slo", "p99=20ms", "--form", "packed:8").form == Form("packed", 8)


def test_a_limit_names_a_percentile_and_a_time() -> None:
    assert arguments.limit("p99.9=1.5s") == Limit(99.9, 1500)
    limit = arguments.limit("max=300us")
    assert limit.percentile == 100
    assert limit.milliseconds == pytest.approx(0.3)
