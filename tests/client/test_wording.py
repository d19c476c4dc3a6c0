"""Durations and tables as people read them."""

import pytest
from octofold_client.wording import aligned, duration_range


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0, 0.2, "about 1 s"),
        (5, 40, "5 to 40 s"),
        (40, 42, "about 42 s"),
        (50, 180, "50 s to 3 min"),
        (600, 5399, "10 to 90 min"),
        (4000, 7200, "67 min to 2.0 h"),
        (5400, 10_800, "1.5 to 3.0 h"),
    ],
)
def test_a_duration_is_a_range_in_the_units_of_its_size(low: float, high: float, said: str) -> None:
    assert duration_range(low, high) == said


@pytest.mark.parametrize("name", ["cnn|5 layers", "cnn\n6 layers", "cnn\r\n|"])
def test_no_name_breaks_a_table(name: str) -> None:
    lines = aligned([("", "score"), (name, "7")])
    assert len(lines) == 3
    assert [line.replace(r"\|", "").count("|") for line in lines] == [3, 3, 3]
