"""Rules of one stream, without a channel: how far it reads ahead, and how it ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from google.rpc import code_pb2
from octofold_game.contract.model import CARD_FORMAT, Card
from octofold_proto.errors import QueueFull, UnknownModel
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_server.admission import admission as admission_module
from octofold_server.admission.admission import Admission, AdmissionLimits
from octofold_server.batching.batcher import Batcher
from octofold_server.grpc_transport.interface import Metadata
from octofold_server.grpc_transport.streams import MAX_OPEN_BOARDS, MIN_BOARDS, AnswerStream, answer_streams
from octofold_server.models.loading import ServedVersion
from octofold_server.protocols.octofold_v1 import StreamNextMovesCodec
from support.batches import Awaited, queue
from support.fakes import RecordingBackend
from support.servers import ServeAll
from support.waiting import becomes_true


class OneModel:
    """The part of `Models` that admission uses, with one model."""

    default = "fake"

    def __init__(self, batcher: Batcher) -> None:
        card = Card(format=CARD_FORMAT, name="fake", version=1, largest_exponent=17, precisions={})
        served = ServedVersion("fake", "1", 17, card, "", "fp32", batcher, batcher.statistics)
        self.ready = {("fake", ""): served}

    def resolve(self, name: str, *_: str, **_loads: bool) -> ServedVersion:
        raise UnknownModel(f"there is no {name}")


class Wire:
    """A fake `Rpc`; the test acts as the client.

    `reads` is true while the stream waits for the next message. A sent message is in transit until `let_go`.
    """

    metadata: Metadata = ()
    deadline = math.inf
    unread_bytes = 0
    is_alone = False

    def __init__(self) -> None:
        self.on_message: Any = None
        self.on_sent: Any = None
        self.on_left: Any = None
        self.on_over: Callable[[], None] | None = None
        self.reads = False
        self.on_its_way: pb.StreamNextMovesResponse | None = None
        self.arrived: list[pb.StreamNextMovesResponse] = []
        self.ends: list[tuple[int, str]] = []

    def peer(self) -> str:
        return "test"

    def read(self) -> None:
        assert not self.reads
        self.reads = True

    def send(self, message: bytes) -> None:
        assert self.on_its_way is None
        assert not self.ends
        self.on_its_way = pb.StreamNextMovesResponse.FromString(message)

    def end(self, code: int = 0, details: str = "", trailing: object = ()) -> None:  # noqa: ARG002 -- the method's
        assert self.on_its_way is None
        self.ends.append((code, details))

    def cut_off(self, code: int, details: str) -> None:
        raise AssertionError(f"nothing cuts these streams off: {code}, {details}")

    def reply(self, message: bytes, trailing: object = ()) -> None:  # noqa: ARG002 -- the method's
        raise AssertionError("a stream has many replies")

    def give(self, message: bytes | None) -> None:
        assert self.reads
        self.reads = False
        self.on_message(message)

    def let_go(self, count: int = 1) -> list[int]:
        """Let the next replies arrive; return their ids."""
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
def admission(batcher: Batcher) -> Admission:
    models: Any = OneModel(batcher)
    admission = Admission(models)
    admission.open()
    return admission


def open_stream(admission: Admission, wire: Wire) -> AnswerStream[pb.StreamNextMovesRequest]:
    return AnswerStream(admission, StreamNextMovesCodec(), wire)


def ask(batcher: Batcher) -> Awaited:
    call = Awaited(np.ones((1, 16), np.uint8))
    queue(batcher, call)
    return call


def message(number: int, boards: int, model: str = "") -> bytes:
    request = pb.NextMovesRequest(model=model, boards=bytes(16 * boards))
    return pb.StreamNextMovesRequest(id=number, request=request).SerializeToString()


def test_the_server_stops_reading_from_a_client_that_never_reads(admission: Admission) -> None:
    wire = Wire()
    open_stream(admission, wire)
    for number in range(1, 5):
        wire.give(message(number, MAX_OPEN_BOARDS // 4))
    assert becomes_true(lambda: wire.on_its_way is not None)
    assert not wire.reads  # all four messages are answered, but no answer has arrived
    assert wire.let_go() == [1]
    assert wire.reads


def test_a_stream_that_must_stop_reading_still_answers_what_it_has_read(
    admission: Admission, backend: RecordingBackend
) -> None:
    wire = Wire()
    backend.gate.clear()
    open_stream(admission, wire)
    wire.give(message(1, 3))
    wire.give(message(2, 3))
    admission.refuse()
    wire.give(message(3, 3))  # in transit at the refusal
    backend.gate.set()
    assert wire.let_go(2) == [1, 2]
    ((code, details),) = wire.ends
    assert (code, details) == (code_pb2.UNAVAILABLE, "the server is shutting down")


def test_a_stream_that_was_idle_for_long_makes_room_for_another(
    batcher: Batcher, backend: RecordingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    models: Any = OneModel(batcher)
    admission = Admission(models, AdmissionLimits(streams=3))
    admission.open()
    busy, idle, idle_too = wires = [Wire() for _ in range(3)]
    backend.gate.clear()
    for wire in wires:
        open_stream(admission, wire)
    busy.give(message(1, 1))
    with pytest.raises(QueueFull, match="3 streams are open, the maximum"):
        open_stream(admission, Wire())
    monkeypatch.setattr(admission_module, "SPARE_IDLE_SECONDS", 0.0)
    open_stream(admission, newest := Wire())
    assert [len(wire.ends) for wire in (busy, idle, idle_too, newest)] == [0, 1, 0, 0]


def test_a_stream_with_an_open_answer_is_not_idle(admission: Admission, backend: RecordingBackend) -> None:
    wire = Wire()
    backend.gate.clear()
    stream = open_stream(admission, wire)
    wire.give(message(1, 3))
    stream.end_if_idle(0)
    assert wire.ends == []
    backend.gate.set()
    assert wire.let_go() == [1]
    stream.end_if_idle(0)
    assert "the stream was idle for 0 seconds" in wire.ends[0][1]
    assert admission.open_calls == 0


def test_a_stream_whose_client_has_finished_ends_normally_even_if_the_server_shuts_down(
    admission: Admission, backend: RecordingBackend
) -> None:
    wire = Wire()
    backend.gate.clear()
    open_stream(admission, wire)
    wire.give(message(1, 3))
    wire.give(None)
    admission.refuse()
    backend.gate.set()
    assert wire.let_go() == [1]
    assert wire.ends == [(0, "")]


def test_malformed_bytes_end_the_stream_after_earlier_messages_are_answered(
    serve_all: ServeAll,
) -> None:
    with serve_all(RecordingBackend()) as served:
        wire = Wire()
        answer_streams(served.admission, StreamNextMovesCodec())(wire)
        wire.give(message(1, 1))
        wire.give(b"\xff")
        assert wire.let_go() == [1]
        assert [code for code, _ in wire.ends] == [code_pb2.INVALID_ARGUMENT]


def test_the_server_stops_reading_from_a_client_that_reads_no_replies_even_if_messages_are_empty(
    admission: Admission,
) -> None:
    wire = Wire()
    open_stream(admission, wire)
    given = 0
    while wire.reads and given < MAX_OPEN_BOARDS:
        wire.give(b"")
        given += 1
    assert given == MAX_OPEN_BOARDS // MIN_BOARDS


def test_an_abandoned_stream_withdraws_its_boards_and_ends(
    admission: Admission, batcher: Batcher, backend: RecordingBackend
) -> None:
    backend.gate.clear()
    holding = ask(batcher)
    backend.started.acquire()
    wire = Wire()
    open_stream(admission, wire)
    for number in range(5):
        wire.give(message(number, 10))
    wire.on_left([wire])
    assert len(wire.ends) == 1
    assert admission.open_calls == 0
    backend.gate.set()
    holding.result()
    ask(batcher).result()
    assert backend.rows == 2


def test_a_message_that_arrives_while_its_stream_ends_keeps_no_bytes(admission: Admission) -> None:
    class Leaving(Wire):
        """A call whose client leaves between a message and the next read."""

        def read(self) -> None:
            super().read()
            self.times_read += 1
            if self.times_read == 2:
                self.on_left([self])

        times_read = 0

    wire = Leaving()
    open_stream(admission, wire)
    wire.give(message(1, 2000))
    assert len(wire.ends) == 1
    assert becomes_true(lambda: admission.budget.used == 0)
