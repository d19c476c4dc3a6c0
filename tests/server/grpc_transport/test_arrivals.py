"""The order in which messages of calls are read when more calls have begun than may be read. No connection is
used."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from google.rpc import code_pb2
from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.admission.refusals import Refusals
from octofold_server.grpc_transport.arrivals import Arrivals, Method
from octofold_server.grpc_transport.interface import nothing

MIB = 2**20
METHOD = Method("Test/Ask", lambda *_: None, most_bytes=None)


class Call:
    """A begun call of a connection."""

    metadata = ()
    deadline = float("inf")
    numbers = itertools.count()

    def __init__(self, client: str) -> None:
        self._client = client
        self.on_message = self.on_sent = self.on_left = self.on_over = nothing
        self.is_read = False
        self.code: int | None = None

    def peer(self) -> str:
        return self._client

    def read(self) -> None:
        assert not self.is_read
        self.is_read = True

    def end(self, code: int = 0, details: str = "", trailing: object = ()) -> None:  # noqa: ARG002 -- the method's
        self.code = code


@pytest.fixture
def refusals() -> Refusals:
    return Refusals()


def begin(arrivals: Arrivals, client: str, count: int = 1) -> list[Any]:
    calls: list[Any] = [Call(client) for _ in range(count)]
    for call in calls:
        arrivals.begin(METHOD, call)
    return calls


def test_the_connection_with_the_most_arriving_messages_makes_room_for_another_after_a_while(
    refusals: Refusals,
) -> None:
    arrivals = Arrivals(4, 10, 60, ByteBudget(MIB, refusals), refusals, patience_seconds=0)
    greedy = begin(arrivals, "greedy", 4)
    (modest,) = begin(arrivals, "modest")
    assert [call.code for call in greedy] == [None] * 4
    arrivals.expire()
    assert modest.is_read
    assert [call.code for call in greedy] == [code_pb2.RESOURCE_EXHAUSTED, None, None, None]
    assert refusals.counts() == {"RESOURCE_EXHAUSTED": 1}


def test_a_connection_without_messages_waits_for_others_and_makes_room_at_once(
    refusals: Refusals,
) -> None:
    arrivals = Arrivals(2, 10, 60, ByteBudget(MIB, refusals), refusals, patience_seconds=0)
    slow = begin(arrivals, "slow", 2)
    begin(arrivals, "another")
    arrivals.expire()  # a call of the slow connection is evicted
    assert slow[0].code == code_pb2.RESOURCE_EXHAUSTED
    (modest,) = begin(arrivals, "modest")
    assert modest.is_read
    assert slow[1].code == code_pb2.RESOURCE_EXHAUSTED
    (slow_again,) = begin(arrivals, "slow")
    (third,) = begin(arrivals, "modest")
    modest.on_message(b"")
    assert third.is_read
    assert not slow_again.is_read


def test_a_connection_never_evicts_its_own_calls(refusals: Refusals) -> None:
    arrivals = Arrivals(2, 10, 60, ByteBudget(MIB, refusals), refusals)
    calls = begin(arrivals, "one", 5)
    assert [call.is_read for call in calls] == [True, True, False, False, False]
    calls[0].on_message(b"")
    assert [call.is_read for call in calls] == [True, True, True, False, False]
    assert refusals.counts() == {}


def test_a_full_queue_of_arrivals_drops_calls_of_the_connection_with_the_most(refusals: Refusals) -> None:
    arrivals = Arrivals(1, 4, 60, ByteBudget(MIB, refusals), refusals)
    greedy = begin(arrivals, "greedy", 5)
    (own,) = begin(arrivals, "greedy")
    assert own.code == code_pb2.RESOURCE_EXHAUSTED
    modest = begin(arrivals, "modest", 2)
    assert [call.code for call in modest] == [None, None]
    assert greedy[1].code == code_pb2.RESOURCE_EXHAUSTED


def test_a_call_whose_message_does_not_arrive_in_time_ends_and_makes_room(refusals: Refusals) -> None:
    arrivals = Arrivals(1, 4, -1.0, ByteBudget(MIB, refusals), refusals)  # every call is too late
    calls = begin(arrivals, "one", 3)
    arrivals.expire()
    assert [call.code for call in calls] == [code_pb2.DEADLINE_EXCEEDED] * 3
    (late,) = begin(arrivals, "one")
    assert late.is_read
    assert refusals.counts() == {"DEADLINE_EXCEEDED": 3}


def test_a_call_that_leaves_the_queue_of_arrivals_is_freed(refusals: Refusals) -> None:
    arrivals = Arrivals(1, 1, 60, ByteBudget(MIB, refusals), refusals)
    first, second = begin(arrivals, "one", 2)
    second.on_left([second])
    assert second.code == code_pb2.CANCELLED
    (third,) = begin(arrivals, "one")
    assert third.code is None
    first.on_message(b"")
    assert third.is_read
    assert not second.is_read
