"""The flags of `octofold loadtest`: how their values are written, and what is said of wrong ones."""

from collections.abc import Callable

import pytest
from octofold_client.cli import loadtest as arguments
from octofold_client.errors import UsageError
from octofold_client.loadtest.forms import Form
from octofold_client.loadtest.loads import Closed, Open
from octofold_client.loadtest.steps import Limit
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
        (arguments.levels, "0", "0: 0 is not above 0 and at most 1,000,000"),
        (arguments.levels, "-5", "-5: '-5' is not a number above 0"),
        (arguments.levels, "1:2", "1:2 is not a range such as 4:16:4 or 1:128:2x"),
        (arguments.levels, "10:1:2x", "10:1:2x ends below its start"),
        (arguments.levels, "1:9:1x", "1:9:1x: 1x does not grow"),
        (arguments.levels, "1:1000000:1", "1:1000000:1 has more than 1,000 levels"),
        (arguments.concurrencies, "1.5", "1.5: 1.5 is not a whole number of callers"),
        (arguments.limit, "p99", "p99 is not a limit such as p99=20ms"),
        (arguments.limit, "p0=1s", "p0=1s is not a limit such as p99=20ms"),
        (arguments.limit, "p99=20", "'20' is not a time such as 20ms or 1.5s"),
        (arguments.limit, "p99=0ms", "0ms is not above 0"),
        (
            arguments.form,
            "soap",
            "soap is not a form of call; use unary, packed, stream, oip, such as packed:16",
        ),
        (arguments.form, "packed:x", "packed:x: 'x' is not a number of boards from 1 to 65,536"),
        (arguments.form, "packed:65537", "packed:65537: '65537' is not a number of boards from 1 to 65,536"),
        pytest.param(
            arguments.form,
            f"packed:{MANY_DIGITS}",
            f"packed:{MANY_DIGITS}: '{MANY_DIGITS}' is not a number of boards from 1 to 65,536",
            id="more digits than int() takes",
        ),
        (arguments.form, "unary:2", "unary:2: a unary call has one board; use packed:2 for more"),
    ],
)
def test_a_flag_that_makes_no_sense_is_told_what_and_where(
    read: Callable[[str], object], text: str, message: str
) -> None:
    with pytest.raises(WrongValue) as failed:
        read(text)
    assert str(failed.value) == message


@pytest.mark.parametrize("flags", [("--rate", "5"), ("--slo", "p99=1s")])
def test_a_pause_needs_callers_that_wait_for_their_answers(flags: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="--think needs callers that wait for their answers"):
        assert options(*flags, "--think", "1s").loads


def options(*flags: str) -> arguments.Options:
    return read(arguments.Options, Parser(), flags)


def test_flags_mean_loads() -> None:
    assert options().loads == [Closed(1 << doublings) for doublings in range(8)]
    assert options("--concurrency", "2,4", "--think", "50ms").loads == [Closed(2, 0.05), Closed(4, 0.05)]
    assert options("--rate", "5", "--arrivals", "constant").loads == [Open(5, poisson=False)]
    assert options("--slo", "p99=20ms", "--form", "packed:8").form == Form("packed", 8)


def test_a_limit_names_a_percentile_and_a_time() -> None:
    assert arguments.limit("p99.9=1.5s") == Limit(99.9, 1500)
    limit = arguments.limit("max=300us")
    assert limit.percentile == 100
    assert limit.milliseconds == pytest.approx(0.3)
