"""Admission: which calls are admitted, that each call is counted once, and versions that are replaced between
look-up and queue."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import pytest
from google.rpc.code_pb2 import INTERNAL, INVALID_ARGUMENT
from numpy.typing import NDArray
from octofold_game.rules import BoardError
from octofold_proto.errors import (
    BackendFailed,
    DeadlinePassed,
    InvalidRequest,
    QueueFull,
    Unavailable,
    UnknownModel,
)
from octofold_proto.messages import MOVES
from octofold_proto.octofold.v1.inference_pb2 import NextMovesRequest, NextMovesResponse
from octofold_server.admission.admission import Admission, AdmissionLimits
from octofold_server.admission.request import Request
from octofold_server.batching.call import Answer
from octofold_server.config.options import Config
from octofold_server.config.version_policies import parse_policies
from octofold_server.grpc_transport.interface import Metadata
from octofold_server.grpc_transport.native import NativeRpc
from octofold_server.grpc_transport.unary import UnaryCalls
from octofold_server.models.loading import ServedVersion
from octofold_server.models.registry import Models
from octofold_server.protocols.octofold_v1 import NextMovesCodec
from support.fakes import RecordingBackend, fake_moves
from support.served import boards_of, packed
from support.servers import WriteVersion


@pytest.fixture
def backend() -> RecordingBackend:
    return RecordingBackend(poison=9)


@pytest.fixture
def models(write_version: WriteVersion, tmp_path: Path, backend: RecordingBackend) -> Iterator[Models]:
    write_version()
    policy = parse_policies("latest:1")
    config = Config(models=tmp_path / "models", lanes=1, queue_capacity=100, versions=policy)
    models = Models(config, lambda *_: [backend])
    models.start()
    yield models
    backend.gate.set()
    models.close()


@pytest.fixture
def admission(models: Models) -> Admission:
    admission = Admission(models, AdmissionLimits(boards=50, calls=2, streams=3, streams_per_connection=2))
    admission.open()
    return admission


class Submitted:
    """A submitted call. A test can wait for its end."""

    def __init__(self, admission: Admission, request: Request, deadline: float) -> None:
        self._ended = threading.Event()
        self.accepted = admission.submit(request, lambda _: self._ended.set(), deadline)

    def cancel(self) -> None:
        self.accepted.cancel()

    def result(self) -> Answer:
        self._ended.wait()
        if self.accepted.error is not None:
            raise self.accepted.error
        return self.accepted.answer


def submit(
    admission: Admission, boards: NDArray[np.uint8], model: str = "", deadline: float = math.inf
) -> Submitted:
    return Submitted(admission, Request(model, "", boards), deadline)


def boards(count: int, exponent: int = 1) -> NDArray[np.uint8]:
    return np.full((count, 16), exponent, np.uint8)


class CheckedBoards(np.ndarray[tuple[int, ...], np.dtype[np.uint8]]):
    """A board that calls `when_checked` when its exponents are checked."""

    when_checked: Callable[[], None]

    @classmethod
    def of(cls, when_checked: Callable[[], None]) -> CheckedBoards:
        boards = np.ones((1, 16), np.uint8).view(cls)
        boards.when_checked = when_checked
        return boards

    def tobytes(self, *arguments: Any, **options: Any) -> bytes:
        self.when_checked()
        return np.asarray(self).tobytes(*arguments, **options)


@contextmanager
def stream_of(admission: Admission, connection: str, stop_reading: Callable[[], None]) -> Iterator[None]:
    token = admission.open_stream(connection, stop_reading, lambda _seconds: None)
    try:
        yield
    finally:
        admission.close_stream(token)


def test_before_it_opens_and_after_it_closes_admission_gives_the_reason_for_a_refusal(
    admission: Admission, models: Models
) -> None:
    starting = Admission(models)
    admission.refuse()
    for closed, why in ((starting, "starting"), (admission, "shutting down")):
        assert not closed.ready
        with pytest.raises(Unavailable, match=why), closed.call_slot():
            pass
        with pytest.raises(Unavailable, match=why), stream_of(closed, "here", lambda: None):
            pass
        assert closed.refusals.counts() == {"UNAVAILABLE": 2}


def test_calls_and_streams_beyond_the_limits_are_refused(admission: Admission) -> None:
    with (
        admission.call_slot(),
        admission.call_slot(),
        pytest.raises(QueueFull, match="calls in progress: 2, the maximum"),
        admission.call_slot(),
    ):
        pass
    with stream_of(admission, "a", lambda: None), stream_of(admission, "a", lambda: None):
        with pytest.raises(QueueFull, match="2 streams are open on this connection"):
            stream_of(admission, "a", lambda: None).__enter__()
        with (
            stream_of(admission, "b", lambda: None),
            pytest.raises(QueueFull, match="3 streams are open, the maximum"),
            stream_of(admission, "c", lambda: None),
        ):
            pass
    with admission.call_slot(), stream_of(admission, "a", lambda: None):  # ended calls and streams make room
        assert admission.refusals.counts() == {"RESOURCE_EXHAUSTED": 3}


def test_every_end_of_a_call_is_counted_once_with_its_status_code(
    admission: Admission, models: Models, backend: RecordingBackend
) -> None:
    statistics = models.resolve("", "").statistics
    submit(admission, boards(3)).result()
    for wrong, error in ((boards(51), InvalidRequest), (boards(1, 16), BoardError)):
        with pytest.raises(error):
            submit(admission, wrong)
    with pytest.raises(BackendFailed):
        submit(admission, boards(1, 9)).result()
    with pytest.raises(UnknownModel):
        submit(admission, boards(1), "nobody")

    backend.gate.clear()
    running = submit(admission, boards(1))
    while not backend.started.acquire(timeout=0) or backend.rows < 5:
        pass
    with pytest.raises(DeadlinePassed):
        submit(admission, boards(1), deadline=0.0).result()
    leaving = submit(admission, boards(50))
    waiting = submit(admission, boards(50))
    with pytest.raises(QueueFull):
        submit(admission, boards(1))
    leaving.cancel()
    with pytest.raises(CancelledError):
        leaving.result()
    backend.gate.set()
    running.result()
    waiting.result()

    counted = statistics.snapshot()
    assert (counted.success.count, counted.boards) == (3, 3 + 1 + 50)
    assert counted.failures == {
        "INVALID_ARGUMENT": 2,
        "INTERNAL": 1,
        "DEADLINE_EXCEEDED": 1,
        "RESOURCE_EXHAUSTED": 1,
        "CANCELLED": 1,
    }
    assert admission.refusals.counts() == {"NOT_FOUND": 1}


def test_an_error_after_the_end_of_a_call_is_logged_and_its_lane_continues(
    admission: Admission, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise MemoryError

    admission.submit(Request("", "", boards(1)), fail)
    submit(admission, boards(1)).result()
    assert "unexpected error after the end of a call" in caplog.text


def test_a_call_whose_version_was_replaced_after_look_up_is_answered_by_the_successor(
    admission: Admission, models: Models, write_version: WriteVersion
) -> None:
    checks = []

    def load_another() -> None:
        checks.append(models.resolve("tiny", "").largest_exponent)
        if len(checks) == 1:  # between look-up and queue
            write_version(version=2, largest_exponent=17)
            models.load("tiny")

    call = submit(admission, CheckedBoards.of(load_another), "tiny")
    assert call.accepted.served.version == "2"
    assert call.result().moves.moves.tolist() == [0]
    assert checks == [15, 17]


class RecordingRpc(NativeRpc):
    """A call without a connection that records how it ends: with a reply, or with the number of a status."""

    def __init__(self, ends: Queue[bytes | int]) -> None:
        self.metadata, self.deadline, self.is_alone = (), math.inf, False
        self._ends = ends

    def peer(self) -> str:
        return "test"

    def reply(self, message: bytes, trailing: Metadata = ()) -> None:
        assert not trailing
        self._ends.put(message)

    def end(self, code: int = 0, details: str = "", trailing: Metadata = ()) -> None:
        assert details
        assert trailing
        self._ends.put(code)


def test_an_unexpected_error_in_a_look_up_fails_only_calls_for_its_model(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = models.resolve

    def resolve_default(name: str, version: str, *, loads: bool = False) -> ServedVersion:
        if name == "other":
            raise RuntimeError("cannot start a thread")
        return resolve(name, version, loads=loads)

    monkeypatch.setattr(models, "resolve", resolve_default)
    admission = Admission(models)
    admission.open()
    message, other = (packed(boards(1), model=model).SerializeToString() for model in ("", "other"))
    ends: Queue[bytes | int] = Queue()
    calls = UnaryCalls(admission, NextMovesCodec(), board_field=NextMovesRequest.BOARDS_FIELD_NUMBER)
    calls.take([(RecordingRpc(ends), received) for received in (message, message, other, other)])
    ended = [ends.get() for _ in range(4)]
    assert ended.count(INTERNAL) == 2
    assert admission.open_calls == 0


def test_refusing_calls_stops_open_streams_and_draining_waits_for_them(admission: Admission) -> None:
    stopped = threading.Event()
    drained = threading.Thread(target=admission.drain, args=(30.0,))
    with stream_of(admission, "a", stopped.set), admission.call_slot():
        admission.refuse()
        assert stopped.is_set()
        drained.start()
        drained.join(0.1)
        assert drained.is_alive()
    drained.join()


def test_messages_of_one_size_with_boards_in_two_places_keep_their_own_options(models: Models) -> None:
    admission = Admission(models)
    admission.open()
    calls = UnaryCalls(admission, NextMovesCodec(), board_field=NextMovesRequest.BOARDS_FIELD_NUMBER)
    board = bytes([1, 2, 3, 4] * 4)
    moved = b"\x7a\x02ab" + NextMovesRequest(boards=board).SerializeToString()  # a field before the board
    first = NextMovesRequest(boards=bytes(range(8)) * 2, with_probabilities=True, priority="PRIORITY_BULK")
    probabilities = NextMovesRequest(boards=board, with_probabilities=True, priority="PRIORITY_BULK")
    votes = NextMovesRequest(boards=board, with_votes=True, priority="PRIORITY_BULK")
    for burst in ([moved], [each.SerializeToString() for each in (first, probabilities, votes)]):
        assert {len(message) for message in burst} == {22}
        ends = [Queue[bytes | int]() for _ in burst]
        calls.take([(RecordingRpc(end), message) for end, message in zip(ends, burst, strict=True)])
        replies = [NextMovesResponse.FromString(bytes(end.get())) for end in ends]
    assert [bool(reply.probabilities) for reply in replies] == [True, True, False]
    assert [bool(reply.votes) for reply in replies] == [False, False, True]


def test_a_message_that_ends_within_its_board_spoils_no_other_call(models: Models) -> None:
    admission = Admission(models)
    admission.open()
    calls = UnaryCalls(admission, NextMovesCodec(), board_field=NextMovesRequest.BOARDS_FIELD_NUMBER)
    whole = NextMovesRequest(boards=bytes([1, 2, 3, 4] * 4)).SerializeToString()
    ends: Queue[bytes | int] = Queue()
    calls.take([(RecordingRpc(ends), message) for message in (whole, whole[:-8], whole, whole[:-8])])
    ended = [ends.get() for _ in range(4)]
    assert ended.count(INVALID_ARGUMENT) == 2
    assert admission.open_calls == 0


def test_alike_messages_are_answered_by_their_own_board_wherever_it_is(models: Models) -> None:
    admission = Admission(models)
    admission.open()
    calls = UnaryCalls(admission, NextMovesCodec(), board_field=NextMovesRequest.BOARDS_FIELD_NUMBER)
    asked = boards_of(4)
    plain = [packed(board[np.newaxis]).SerializeToString() for board in asked % 9]
    unknown = [b"\x7a\x10" + bytes(range(16)) + message for message in plain]  # a field before the board
    twice = [message + plain[0] for message in plain]  # the last one counts; the size is that of `unknown`
    moves = fake_moves(asked % 9).moves.tolist()
    last = moves[:1] * 4
    bursts = [(plain, moves), (unknown, moves), (twice[::-1], last), (twice, last)]
    bursts += [([b"\x7a\x01%c" % form + message for message in plain], moves) for form in range(100)]
    for messages, expected in 2 * bursts:
        ends: Queue[bytes | int] = Queue()
        calls.take([(RecordingRpc(ends), message) for message in messages])
        replies = [NextMovesResponse.FromString(bytes(ends.get())) for _ in messages]
        assert sorted(MOVES.read(reply.moves, 1)[0] for reply in replies) == sorted(expected)
