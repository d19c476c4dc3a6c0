"""One stream's own rules, without a channel: how far it reads ahead, and how it ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status
from octofold_game.model import CARD_FORMAT, Card
from octofold_proto.errors import Unavailable
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_server.admission.admission import Door, Ticket
from octofold_server.backends.fakes import RecordingBackend
from octofold_server.batching.batcher import Batcher
from octofold_server.batching.statistics import ModelStatistics
from octofold_server.models.registry import ServedModel
from octofold_server.protocols.octofold_v1.service import OctofoldMethods
from octofold_server.transport.aside import Aside
from octofold_server.transport.streams import MAX_OPEN_BOARDS, AnswerStream, IdleStreams


class Exchange:
    """What a protocol makes of messages, without a model."""

    name = "Stream"
    known_as = "test"

    def __init__(self, batcher: Batcher) -> None:
        card = Card(format=CARD_FORMAT, name="fake", version=1, largest_exponent=17, precisions={})
        self._served = ServedModel("fake", "1", 17, card, "", "fp32", batcher, ModelStatistics())

    def read(self, message: bytes) -> pb.StreamNextMovesRequest:
        return pb.StreamNextMovesRequest.FromString(message)

    def submit(self, message: pb.StreamNextMovesRequest, when_answered: Callable[[Ticket], None]) -> Ticket:
        ticket = Ticket(self._served, when_answered, None)
        boards = np.frombuffer(message.request.boards, np.uint8).reshape(-1, 16)
        ticket.call = self._served.batcher.submit(boards, on_done=ticket.settle)
        return ticket

    def reply(self, message: pb.StreamNextMovesRequest, ticket: Ticket) -> bytes:
        ticket.answer()
        return pb.StreamNextMovesResponse(id=message.id).SerializeToString()

    def refusal(self, message: pb.StreamNextMovesRequest, error: Exception) -> bytes:
        status = Status(message=str(error))
        return pb.StreamNextMovesResponse(id=message.id, error=status).SerializeToString()


class Refusing(Exchange):
    def submit(self, *_: object) -> Ticket:
        raise Unavailable("not today")


class Wire:
    """A call whose client's part is played by the test, with the methods of `WireCall`.

    `reads` tells whether the next message is asked for; a message that was sent stays on its way until
    `let_go`.
    """

    metadata = ()
    deadline = math.inf

    def __init__(self) -> None:
        self.on_message: Any = None
        self.on_sent: Any = None
        self.on_left: Any = None
        self.reads = False
        self.on_its_way: pb.StreamNextMovesResponse | None = None
        self.arrived: list[pb.StreamNextMovesResponse] = []
        self.ends: list[tuple[int, str]] = []

    def peer(self) -> str:
        return "test"

    def read(self) -> None:
        assert not self.reads
        self.reads = True

    def send(self, message: bytes, *, more: bool = False) -> None:  # noqa: ARG002 -- the method's
        assert self.on_its_way is None
        assert not self.ends
        self.on_its_way = pb.StreamNextMovesResponse.FromString(message)

    def end(self, code: int = 0, details: str = "", trailing: object = ()) -> None:  # noqa: ARG002 -- the method's
        assert self.on_its_way is None
        self.ends.append((code, details))

    def reply(self, _: bytes) -> None:
        raise AssertionError("a stream has many replies")

    def give(self, message: bytes | None) -> None:
        assert self.reads
        self.reads = False
        self.on_message(message)

    def let_go(self, count: int = 1) -> list[int]:
        """The ids of the next replies, which all arrive."""
        ids = []
        for _ in range(count):
            assert becomes_true(lambda: self.on_its_way is not None)
            assert self.on_its_way is not None
            ids.append(self.on_its_way.id)
            self.arrived.append(self.on_its_way)
            self.on_its_way = None
            self.on_sent()
        return ids


@pytest.fixture
def backend() -> RecordingBackend:
    return RecordingBackend()


@pytest.fixture
def batcher(backend: RecordingBackend) -> Iterator[Batcher]:
    batcher = Batcher([backend], max_batch_size=MAX_OPEN_BOARDS, queue_capacity=10 * MAX_OPEN_BOARDS)
    yield batcher
    backend.gate.set()
    batcher.close()


@pytest.fixture
def door() -> Door:
    models: Any = None  # exchanges of this file go past it
    door = Door(models)
    door.open()
    return door


def becomes_true(condition: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def methods_of(door: Door) -> OctofoldMethods:
    return OctofoldMethods(door, Aside(1, 1, door.refusals, "aside"))


def message(number: int, boards: int) -> bytes:
    request = pb.NextMovesRequest(boards=bytes(16 * boards))
    return pb.StreamNextMovesRequest(id=number, request=request).SerializeToString()


def test_a_client_that_never_reads_stops_being_read_itself(door: Door, batcher: Batcher) -> None:
    wire = Wire()
    AnswerStream(door, wire, Exchange(batcher))
    for number in range(1, 5):
        wire.give(message(number, MAX_OPEN_BOARDS // 4))
    assert becomes_true(lambda: wire.on_its_way is not None)
    assert not wire.reads  # all are answered, none is sent
    assert wire.let_go() == [1]
    assert wire.reads


def test_answers_of_many_messages_are_sent_one_after_the_other(door: Door, batcher: Batcher) -> None:
    wire = Wire()
    AnswerStream(door, wire, Exchange(batcher))
    for number in range(20):
        wire.give(message(number, 1))
    assert sorted(wire.let_go(20)) == list(range(20))
    wire.give(None)
    assert wire.ends == [(0, "")]
    assert door.open_calls == 0


def test_a_stream_that_must_stop_reading_still_answers_what_it_has_read(
    door: Door, batcher: Batcher, backend: RecordingBackend
) -> None:
    wire = Wire()
    backend.gate.clear()
    AnswerStream(door, wire, Exchange(batcher))
    wire.give(message(1, 3))
    wire.give(message(2, 3))
    door.refuse()
    wire.give(message(3, 3))  # it was on its way
    backend.gate.set()
    assert wire.let_go(2) == [1, 2]
    ((code, details),) = wire.ends
    assert (code, details) == (code_pb2.UNAVAILABLE, "the server is shutting down")


def test_a_stream_that_owes_an_answer_is_not_idle(
    door: Door, batcher: Batcher, backend: RecordingBackend
) -> None:
    wire = Wire()
    backend.gate.clear()
    stream = AnswerStream(door, wire, Exchange(batcher))
    IdleStreams(0.05).watch(stream)
    wire.give(message(1, 3))
    assert not becomes_true(lambda: bool(wire.ends), seconds=0.5)
    backend.gate.set()
    assert wire.let_go() == [1]
    assert becomes_true(lambda: bool(wire.ends))
    assert "nothing came on this stream for 0.05 seconds" in wire.ends[0][1]
    assert door.open_calls == 0


def test_a_stream_whose_client_has_said_all_ends_well_although_the_door_closes(
    door: Door, batcher: Batcher, backend: RecordingBackend
) -> None:
    wire = Wire()
    backend.gate.clear()
    AnswerStream(door, wire, Exchange(batcher))
    wire.give(message(1, 3))
    wire.give(None)
    door.refuse()
    backend.gate.set()
    assert wire.let_go() == [1]
    assert wire.ends == [(0, "")]


def test_what_a_stream_raises_at_the_door_answers_that_message(door: Door, batcher: Batcher) -> None:
    wire = Wire()
    AnswerStream(door, wire, Refusing(batcher))
    wire.give(message(7, 1))
    wire.give(message(8, 1))
    assert wire.let_go(2) == [7, 8]
    assert [answer.error.message for answer in wire.arrived] == ["not today"] * 2


def test_bytes_that_are_no_message_end_the_stream_once_those_before_are_answered(
    open_doors: Callable[..., Any],
) -> None:
    with open_doors(RecordingBackend()) as doors:
        wire = Wire()
        methods_of(doors.door).stream_next_moves(wire)
        wire.give(message(1, 1))
        wire.give(b"\xff")
        assert wire.let_go() == [1]
        assert [code for code, _ in wire.ends] == [code_pb2.INVALID_ARGUMENT]


def test_whatever_fills_a_message_counts(open_doors: Callable[..., Any]) -> None:
    long = pb.StreamNextMovesRequest(request=pb.NextMovesRequest(model="m" * 60_000)).SerializeToString()
    with open_doors(RecordingBackend()) as doors:
        wire = Wire()
        methods_of(doors.door).stream_next_moves(wire)
        for _ in range(18):  # 65,536 boards of 16 bytes are 1,048,576
            wire.give(long)
        assert not wire.reads
        wire.let_go()
        assert wire.arrived[0].error.code == code_pb2.NOT_FOUND
        assert wire.reads


def test_an_abandoned_stream_withdraws_its_boards_and_ends(
    door: Door, batcher: Batcher, backend: RecordingBackend
) -> None:
    backend.gate.clear()
    holding = batcher.submit(np.ones((1, 16), np.uint8))
    backend.started.acquire()
    wire = Wire()
    AnswerStream(door, wire, Exchange(batcher))
    for number in range(5):
        wire.give(message(number, 10))
    wire.on_left()
    assert len(wire.ends) == 1
    assert door.open_calls == 0
    backend.gate.set()
    holding.result()
    batcher.submit(np.ones((1, 16), np.uint8)).result()
    assert backend.rows == 2


def test_a_stream_whose_client_leaves_while_an_answer_is_on_its_way_ends_after_it(
    door: Door, batcher: Batcher
) -> None:
    wire = Wire()
    AnswerStream(door, wire, Exchange(batcher))
    wire.give(message(1, 1))
    assert becomes_true(lambda: wire.on_its_way is not None)
    wire.on_left()
    assert wire.ends == []
    wire.let_go()
    assert len(wire.ends) == 1
