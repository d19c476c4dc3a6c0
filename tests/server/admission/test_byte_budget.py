"""Limits on the bytes of messages that each client has in flight."""

from __future__ import annotations

import pytest
from octofold_proto.errors import QueueFull
from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.admission.refusals import Refusals


def taken(budget: ByteBudget, size: int, client: str) -> int:
    """Return the number of messages of this size for which the client gets room."""
    for count in range(1000):
        try:
            budget.take(size, client)
        except QueueFull:
            return count
    raise AssertionError("there is no end")


def test_a_client_of_many_messages_leaves_room_for_others() -> None:
    budget = ByteBudget(1200, Refusals())
    assert taken(budget, 10, "greedy") == 60
    assert taken(budget, 10, "second") == 30
    assert taken(budget, 10, "third") == 15


def test_the_only_message_of_a_client_may_use_the_whole_free_budget() -> None:
    refusals = Refusals()
    budget = ByteBudget(1200, refusals)
    budget.take(1200, "one")
    with pytest.raises(QueueFull, match="messages of 1200 bytes are in flight, 0 bytes from this connection"):
        budget.take(1, "other")
    budget.give(1200, "one")
    budget.take(1200, "other")
    assert refusals.counts() == {"RESOURCE_EXHAUSTED": 1}
