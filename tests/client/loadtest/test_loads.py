"""Loads as people read them."""

import pytest
from octofold_client.loadtest.loads import per_second


@pytest.mark.parametrize(
    ("rate", "said"), [(0.5, "0.5"), (7, "7"), (99.96, "100"), (100, "100"), (123_456.7, "123,457")]
)
def test_a_rate_has_no_decimals_from_100_on(rate: float, said: str) -> None:
    assert per_second(rate) == said
