"""The choice of a transport: the fastest that may and can serve here."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from typing import Any

import grpc

from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.admission.refusals import Refusals
from octofold_server.grpc_transport.arrivals import Arrivals
from octofold_server.grpc_transport.interface import Rpc, Server
from octofold_server.grpc_transport.methods import Methods
from octofold_server.grpc_transport.self_call import private_address
from octofold_server.system.grpc_core import knows_our_experiment
from octofold_server.system.sockets import StartupError

CHECK_SECONDS = 10.0
LOOK_SECONDS = 0.005
"""Interval between two looks whether the server still serves while a call of ours waits."""

_log = logging.getLogger(__name__)


def new_server(
    kind: str, methods: Methods, options: Sequence[tuple[str, int]] = (), *, is_native: bool = False
) -> Server:
    """Make a server.

    Args:
        kind: "native", "direct", or "auto" for the first of these that answers calls of our own.
        methods: the methods to serve.
        options: options of gRPC's C core.
        is_native: whether "auto" may be the native transport, which is for trusted callers.

    Raises:
        StartupError: there is no place for a socket of the server's own.
        Exception: the transport cannot serve here.
    """
    if kind == "native" or (kind == "auto" and is_native):
        try:
            # Not every platform has it.
            from octofold_server.grpc_transport.native import NativeServer

            return _checked(NativeServer, kind)(methods, options)
        except StartupError:
            raise
        except Exception as error:
            if kind == "native":
                raise
            _log.warning(
                "--transport native cannot serve here, using direct: %s: %s", type(error).__name__, error
            )
    # The import itself uses private names of grpcio.
    from octofold_server.grpc_transport.direct import DirectServer

    if not knows_our_experiment(DirectServer.library()):
        _log.warning(
            "grpcio %s does not read connections in the serving thread: calls cost more CPU time",
            grpc.__version__,
        )
    return _checked(DirectServer, kind)(methods, options)


def _checked(transport: type[Server], kind: str) -> type[Server]:
    if kind == "auto":
        with private_address() as address:
            check(transport, address)
    return transport


class _Misbehaves(Exception):
    """A call did not end as expected."""


def check(transport: type[Server], address: str) -> None:
    """Test a transport with a few calls of our own.

    Args:
        transport: the transport.
        address: a gRPC address that is free.

    Raises:
        Exception: the transport cannot be made, or a call does not end as expected.
    """
    refusals = Refusals()
    arrivals = Arrivals(2, 2, CHECK_SECONDS, ByteBudget(2**20, refusals), refusals)
    methods = Methods(arrivals, refusals)
    methods.add_unary("check.Check/Double", _double)
    methods.add_stream("check.Check/Echo", _echo)
    server = transport(methods, ())
    server.listen(address)
    server.start()
    try:
        with grpc.insecure_channel(address) as channel:
            _call_all(channel, server)
    finally:
        # Not at once: gRPC would report the connection that is just being closed as one that was cut off.
        if server.failure is None and not server.stop(CHECK_SECONDS).wait(2 * CHECK_SECONDS):
            raise _Misbehaves("the server does not stop")
    if server.failure is not None:
        raise server.failure


def _double(call: Rpc, message: bytes) -> None:
    metadata = dict(call.metadata)
    if message == b"fail" or metadata.get("key") != "value" or call.deadline == math.inf or not call.peer():
        call.end(5, "as it should", (("key", "value"),))
    else:
        call.reply(message * 2)


def _echo(call: Rpc) -> None:
    def take(message: bytes | None) -> None:
        if message is None:
            call.end()
        else:
            call.send(message)

    call.on_message = take
    call.on_sent = call.read
    call.read()


def _call_all(channel: grpc.Channel, server: Server) -> None:
    options: Any = {"timeout": CHECK_SECONDS, "metadata": (("key", "value"),), "wait_for_ready": True}
    double: Any = channel.unary_unary("/check.Check/Double")
    echo: Any = channel.stream_stream("/check.Check/Echo")
    nothing: Any = channel.unary_unary("/check.Check/Nothing")
    first = double.future(b"ab", **options)
    while not first.done():
        if server.failure is not None:  # nobody serves any more
            raise server.failure
        time.sleep(LOOK_SECONDS)
    if first.result() != b"abab":
        raise _Misbehaves("a unary call returned a wrong reply")
    if list(echo(iter((b"a", b"b")), **options)) != [b"a", b"b"]:
        raise _Misbehaves("a stream returned wrong replies")
    for method, message, code in (
        (double, b"fail", grpc.StatusCode.NOT_FOUND),
        (nothing, b"", grpc.StatusCode.UNIMPLEMENTED),
    ):
        try:
            method(message, **options)
        except grpc.RpcError as error:
            if error.code() is not code:
                raise _Misbehaves(f"a call ended with {error.code()}, not {code}") from None
        else:
            raise _Misbehaves(f"a call did not end with {code}")
