"""Calls without threads over real connections: how they end, effects of failures, and memory that is
freed."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import cast

import grpc
import pytest
from google.rpc.code_pb2 import CANCELLED, DEADLINE_EXCEEDED
from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.admission.refusals import Refusals
from octofold_server.grpc_transport.arrivals import Arrivals
from octofold_server.grpc_transport.interface import Rpc
from octofold_server.grpc_transport.methods import Methods, departure_code
from octofold_server.grpc_transport.transport_choice import new_server
from support.grpc_calls import raw_unary
from support.waiting import wait_for

Unary = Callable[[Rpc, bytes], None]


TRANSPORTS = ("native", "direct")
Serve = Callable[..., AbstractContextManager[grpc.Channel]]


@pytest.fixture
def served(transport: str) -> Serve:
    return partial(serve, transport)


@contextmanager
def serve(
    transport: str, method: Unary, refusals: Refusals | None = None, **options: int
) -> Iterator[grpc.Channel]:
    refusals = refusals or Refusals()
    methods = Methods(Arrivals(16, 16, 10.0, ByteBudget(2**20, refusals), refusals), refusals)
    methods.add_unary("test.Test/Ask", method)
    server = new_server(transport, methods, [(f"grpc.{name}", value) for name, value in options.items()])
    port = server.listen("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        server.stop(None).wait()


def ask(channel: grpc.Channel, message: bytes) -> bytes:
    return raw_unary(channel, "test.Test/Ask")(message, timeout=30)


def test_a_call_is_answered_from_any_thread_and_only_its_first_end_counts(served: Serve) -> None:
    def later(call: Rpc, message: bytes) -> None:
        def answer() -> None:
            call.reply(message * 2)
            call.end(code=13)

        threading.Thread(target=answer).start()

    with served(later) as channel:
        assert ask(channel, b"ab") == b"abab"


def test_a_bug_fails_only_its_call_with_an_id_that_the_log_has(
    served: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    def sometimes(call: Rpc, message: bytes) -> None:
        if message == b"bad":
            raise ZeroDivisionError
        call.reply(message)

    with served(sometimes) as channel:
        with pytest.raises(grpc.RpcError, match="internal error") as failure:
            ask(channel, b"bad")
        assert failure.value.code() == grpc.StatusCode.INTERNAL
        details = failure.value.details()
        assert details is not None
        assert details.rpartition(" ")[2] in caplog.text
        assert ask(channel, b"good") == b"good"


def test_a_server_that_stops_ends_unanswered_calls(served: Serve) -> None:
    left = threading.Event()
    asked = threading.Event()

    def never(call: Rpc, _: bytes) -> None:
        def leave(_: object) -> None:
            left.set()
            call.end(code=1)

        call.on_left = leave
        asked.set()

    with served(never) as channel:
        waiting = raw_unary(channel, "test.Test/Ask").future(b"", timeout=30)
        assert asked.wait(30)
    assert left.wait(30)
    with pytest.raises((grpc.RpcError, grpc.FutureCancelledError)):
        waiting.result(30)


def test_a_call_whose_deadline_passes_before_the_server_takes_it_is_counted() -> None:
    refusals, taken, goes_on = Refusals(), threading.Event(), threading.Event()

    def stall(call: Rpc, message: bytes) -> None:
        taken.set()
        goes_on.wait(30)
        call.reply(message)

    with serve("native", stall, refusals) as channel:
        first = raw_unary(channel, "test.Test/Ask").future(b"first", timeout=30)
        assert taken.wait(30)
        with pytest.raises(grpc.RpcError, match="DEADLINE_EXCEEDED"):
            raw_unary(channel, "test.Test/Ask")(b"late", timeout=0.05)
        with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):  # thus it has read "late"
            raw_unary(channel, "test.Test/Unknown")(b"", timeout=30)
        goes_on.set()
        assert first.result() == b"first"
        wait_for(lambda: refusals.counts() == {"DEADLINE_EXCEEDED": 1, "UNIMPLEMENTED": 1})


@pytest.mark.parametrize(
    ("seconds_left", "code"),
    [(-100, DEADLINE_EXCEEDED), (0.015, DEADLINE_EXCEEDED), (100, CANCELLED), (math.inf, CANCELLED)],
)
def test_a_caller_that_leaves_just_before_its_deadline_counts_as_late(seconds_left: float, code: int) -> None:
    class Departed:
        deadline = time.monotonic() + seconds_left

    assert departure_code(cast(Rpc, Departed())) == code
