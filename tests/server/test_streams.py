"""One stream's own rules, without a channel: how far it reads ahead, and how it ends."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status
from octofold_proto.errors import Unavailable
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_server.batcher import Batcher
from octofold_server.door import Ticket
from octofold_server.fakes import RecordingBackend
from octofold_server.models import ServedModel
from octofold_server.repository import Card
from octofold_server.servicer import OctofoldServicer
from octofold_server.statistics import ModelStatistics
from octofold_server.streams import MAX_OPEN_BOARDS, AnswerStream

Stream = AnswerStream[pb.StreamNextMovesRequest, pb.StreamNextMovesResponse]


class Exchange:
    """What a servicer makes of messages, without a model."""

    def __init__(self, batcher: Batcher) -> None:
        self._served = ServedModel("fake", "1", 17, Card(17, {}, ""), "fp32", batcher, ModelStatistics())

    def boards(self, message: pb.StreamNextMovesRequest) -> int:
        return message.ByteSize() // 16

    def submit(self, message: pb.StreamNextMovesRequest, when_answered: Callable[[Ticket], None]) -> Ticket:
        ticket = Ticket(self._served, when_answered)
        boards = np.frombuffer(message.request.boards, np.uint8).reshape(-1, 16)
        ticket.call = self._served.batcher.submit(boards, on_done=ticket.settle)
        return ticket

    def reply(self, message: pb.StreamNextMovesRequest, ticket: Ticket) -> pb.StreamNextMovesResponse:
        ticket.answer()
        return pb.StreamNextMovesResponse(id=message.id)

    def refusal(self, message: pb.StreamNextMovesRequest, error: Exception) -> pb.StreamNextMovesResponse:
        return pb.StreamNextMovesResponse(id=message.id, error=Status(message=str(error)))


class Refusing(Exchange):
    def submit(self, *_: object) -> Ticket:
        raise Unavailable("not today")


@pytest.fixture
def backend() -> RecordingBackend:
    return RecordingBackend()


@pytest.fixture
def batcher(backend: RecordingBackend) -> Iterator[Batcher]:
    batcher = Batcher(backend, lanes=1, max_batch_size=MAX_OPEN_BOARDS, queue_capacity=10 * MAX_OPEN_BOARDS)
    yield batcher
    backend.gate.set()
    batcher.close()


@pytest.fixture
def stream(batcher: Batcher) -> Stream:
    return AnswerStream(Exchange(batcher))


def becomes_true(condition: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def message(number: int, boards: int) -> pb.StreamNextMovesRequest:
    return pb.StreamNextMovesRequest(id=number, request=pb.NextMovesRequest(boards=bytes(16 * boards)))


def test_a_client_that_never_reads_stops_being_read_itself(stream: Stream) -> None:
    read = threading.Semaphore(0)

    def messages() -> Iterator[pb.StreamNextMovesRequest]:
        for number in range(1, 100):
            yield message(number, MAX_OPEN_BOARDS // 4)
            read.release()  # reached once the stream has taken the message and wants the next

    answers = stream.answers(messages())
    first = next(answers)
    for _ in range(4):
        read.acquire()
    assert not read.acquire(timeout=0.2)
    assert first.id == 1
    next(answers)  # the first has been sent
    assert read.acquire(timeout=30)
    answers.close()


def test_a_stream_that_must_stop_reading_still_answers_what_it_has_read(
    stream: Stream, backend: RecordingBackend
) -> None:
    end = threading.Event()

    def messages() -> Iterator[pb.StreamNextMovesRequest]:
        yield message(1, 3)
        yield message(2, 3)
        stream.stop_reading()
        backend.gate.set()
        end.wait()  # the client sends nothing more, but does not leave
        yield message(3, 3)

    backend.gate.clear()
    assert [answer.id for answer in stream.answers(messages())] == [1, 2]
    assert not stream.read_to_end
    end.set()


def test_a_stream_that_owes_an_answer_is_not_idle(batcher: Batcher, backend: RecordingBackend) -> None:
    end = threading.Event()

    def messages() -> Iterator[pb.StreamNextMovesRequest]:
        yield message(1, 3)
        end.wait()

    backend.gate.clear()
    answers = AnswerStream(Exchange(batcher), idle_seconds=0.05).answers(messages())
    opening = threading.Timer(0.5, backend.gate.set)
    opening.start()
    assert next(answers).id == 1
    with pytest.raises(Unavailable, match=r"nothing came on this stream for 0.05 seconds"):
        next(answers)
    end.set()


def test_a_stream_whose_client_has_said_all_is_read_to_its_end(stream: Stream) -> None:
    assert [answer.id for answer in stream.answers(iter([message(1, 3)]))] == [1]
    assert stream.read_to_end


def test_what_a_stream_raises_at_the_door_answers_that_message(batcher: Batcher) -> None:
    answers = AnswerStream(Refusing(batcher)).answers(iter([message(7, 1), message(8, 1)]))
    assert [(answer.id, answer.error.message) for answer in answers] == [(7, "not today"), (8, "not today")]


def test_a_message_that_fails_is_not_kept(batcher: Batcher) -> None:
    class Sent:
        """A message to which there can be a weak reference."""

        id = 7

    sent: list[weakref.ref[Sent]] = []

    def messages() -> Iterator[Any]:
        for _ in range(10):
            message = Sent()
            sent.append(weakref.ref(message))
            yield message
            del message

    exchange: Any = Refusing(batcher)
    exchange.boards = lambda _: 1
    answers: Iterator[Any] = AnswerStream(exchange).answers(messages())
    next(answers)
    assert becomes_true(lambda: len(sent) == 10 and not any(message() for message in sent[:-1]))


class Context:
    """As much of gRPC's context as a stream uses."""

    def time_remaining(self) -> None:
        return None

    def add_callback(self, _: Any) -> bool:
        return True

    def peer(self) -> str:
        return "test"

    def invocation_metadata(self) -> tuple[()]:
        return ()


def test_whatever_fills_a_message_counts(open_doors: Callable[..., Any]) -> None:
    taken: list[int] = []

    def messages() -> Iterator[pb.StreamNextMovesRequest]:
        for number in range(100):
            taken.append(number)
            yield pb.StreamNextMovesRequest(id=number, request=pb.NextMovesRequest(model="m" * 300_000))

    with open_doors(RecordingBackend()) as doors:
        context: Any = Context()
        answers = OctofoldServicer(doors.door).StreamNextMoves(messages(), context)
        assert next(answers).error.code == code_pb2.NOT_FOUND
        assert becomes_true(lambda: len(taken) == 5)  # 65,536 boards of 16 bytes are 1,048,576
        assert not becomes_true(lambda: len(taken) > 5, seconds=0.3)
        answers.close()


def test_an_abandoned_stream_withdraws_its_boards_and_ends(
    stream: Stream, batcher: Batcher, backend: RecordingBackend
) -> None:
    backend.gate.clear()
    holding = batcher.submit(np.ones((1, 16), np.uint8))
    backend.started.acquire()

    def messages() -> Iterator[pb.StreamNextMovesRequest]:
        for number in range(5):
            yield message(number, 10)
        stream.abandon()

    assert list(stream.answers(messages())) == []
    backend.gate.set()
    holding.result()
    batcher.submit(np.ones((1, 16), np.uint8)).result()
    assert backend.rows == 2
