"""Durations as people read them."""

import pytest
from octofold_client.wording import duration_range


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
