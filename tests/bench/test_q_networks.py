"""`bench/strength/q_networks.py` plays Q-networks with and without dropout, and players that need no
training."""

import pytest
from support.benches import figures_of

pytestmark = pytest.mark.long


def test_the_published_network_plays_with_dropout_and_without() -> None:
    options = ("--games", "20", "--untrained", "2")
    figures = figures_of("q_networks.py", "checkpoints/published/dqn-dropout", *options)
    off, active = figures["dqn-dropout"]["average"], figures["dqn-dropout, dropout active"]["average"]
    assert 0 not in (off, active)
    assert off != active
    assert figures["up, left, right, down"]["average"] > 1000
    assert figures["2 untrained networks"]["average"] > 100
