"""The door: who is let in, that everything is counted once, and what happens when a version changes hands
between the look and the queue."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game.rules import BoardError, check_boards
from octofold_proto.errors import (
    BackendFailed,
    DeadlinePassed,
    InvalidRequest,
    QueueFull,
    Unavailable,
    UnknownModel,
)
from octofold_server.admission.admission import Door, Limits, code_name
from octofold_server.backends.fakes import RecordingBackend
from octofold_server.config.options import Config
from octofold_server.config.policies import parse_policies
from octofold_server.models.registry import Models

WriteVersion = Callable[..., Path]


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
def door(models: Models) -> Door:
    door = Door(models, Limits(boards=50, calls=2, streams=3, streams_per_connection=2))
    door.open()
    return door


def boards(count: int, exponent: int = 1) -> Callable[[int], NDArray[np.uint8]]:
    return lambda largest: check_boards(np.full((count, 16), exponent, np.uint8), largest)


@contextmanager
def stream_of(door: Door, connection: str, stop_reading: Callable[[], None]) -> Iterator[None]:
    place = door.open_stream(connection, stop_reading)
    try:
        yield
    finally:
        door.close_stream(place)


def test_a_door_that_is_not_open_says_why(door: Door, models: Models) -> None:
    starting = Door(models)
    door.refuse()
    for closed, why in ((starting, "starting"), (door, "shutting down")):
        assert not closed.ready
        with pytest.raises(Unavailable, match=why), closed.call():
            pass
        with pytest.raises(Unavailable, match=why), stream_of(closed, "here", lambda: None):
            pass
        assert closed.refusals.counts() == {"UNAVAILABLE": 2}


def test_a_server_that_leaves_still_lets_calls_in_but_is_not_ready(door: Door) -> None:
    assert door.ready
    door.leave()
    assert not door.ready
    with door.call():
        door.submit("", "", boards(1)).answer()


def test_no_more_calls_and_streams_are_let_in_than_the_limits_say(door: Door) -> None:
    with door.call(), door.call(), pytest.raises(QueueFull, match="2 calls are at work"), door.call():
        pass
    with stream_of(door, "a", lambda: None), stream_of(door, "a", lambda: None):
        with pytest.raises(QueueFull, match="2 streams are open on this connection"):
            stream_of(door, "a", lambda: None).__enter__()
        with (
            stream_of(door, "b", lambda: None),
            pytest.raises(QueueFull, match="3 streams are open, the most"),
            stream_of(door, "c", lambda: None),
        ):
            pass
    with door.call(), stream_of(door, "a", lambda: None):  # what has ended makes room
        assert door.refusals.counts() == {"RESOURCE_EXHAUSTED": 3}


def test_every_end_of_a_call_is_counted_once_under_its_code(
    door: Door, models: Models, backend: RecordingBackend
) -> None:
    statistics = models.resolve("", "").statistics
    door.submit("", "", boards(3)).answer()
    for wrong, error in ((boards(51), InvalidRequest), (boards(1, 16), BoardError)):
        with pytest.raises(error):
            door.submit("", "", wrong)
    with pytest.raises(BackendFailed):
        door.submit("", "", boards(1, 9)).answer()
    with pytest.raises(UnknownModel):
        door.submit("nobody", "", boards(1))

    backend.gate.clear()
    running = door.submit("", "", boards(1))
    while not backend.started.acquire(timeout=0) or backend.rows < 5:
        pass
    with pytest.raises(DeadlinePassed):
        door.submit("", "", boards(1), deadline=0.0).answer()
    leaving = door.submit("", "", boards(50))
    waiting = door.submit("", "", boards(50))
    with pytest.raises(QueueFull):
        door.submit("", "", boards(1))
    leaving.cancel()
    with pytest.raises(CancelledError):
        leaving.answer()
    backend.gate.set()
    running.answer()
    waiting.answer()

    counted = statistics.snapshot()
    assert (counted.success.count, counted.boards) == (3, 3 + 1 + 50)
    assert counted.failures == {
        "INVALID_ARGUMENT": 2,
        "INTERNAL": 1,
        "DEADLINE_EXCEEDED": 1,
        "RESOURCE_EXHAUSTED": 1,
        "CANCELLED": 1,
    }
    assert door.refusals.counts() == {"NOT_FOUND": 1}


def test_a_call_that_found_a_version_which_then_went_is_answered_by_its_successor(
    door: Door, models: Models, write_version: WriteVersion
) -> None:
    asked = []

    def read(largest_exponent: int) -> NDArray[np.uint8]:
        asked.append(largest_exponent)
        if len(asked) == 1:  # between the look and the queue
            write_version(version=2, largest_exponent=17)
            models.load("tiny")
        return np.ones((1, 16), np.uint8)

    ticket = door.submit("tiny", "", read)
    assert ticket.served.version == "2"
    assert ticket.answer().moves.moves.tolist() == [0]
    assert asked == [15, 17]


def test_a_call_for_a_model_that_is_unloaded_at_that_moment_is_unavailable(
    door: Door, models: Models
) -> None:
    def read(_: int) -> NDArray[np.uint8]:
        if models.served():
            models.unload("tiny")
        return np.ones((1, 16), np.uint8)

    with pytest.raises(Unavailable, match="unloaded by request"):
        door.submit("tiny", "", read)


def test_refusing_stops_open_streams_and_draining_waits_for_them(door: Door) -> None:
    stopped = threading.Event()
    drained = threading.Thread(target=door.drain, args=(30.0,))
    with stream_of(door, "a", stopped.set), door.call():
        door.refuse()
        assert stopped.is_set()
        drained.start()
        drained.join(0.1)
        assert drained.is_alive()
    drained.join()


def test_an_error_of_no_class_that_crosses_the_wire_is_internal() -> None:
    assert code_name(ZeroDivisionError()) == "INTERNAL"
    assert code_name(CancelledError()) == "CANCELLED"
