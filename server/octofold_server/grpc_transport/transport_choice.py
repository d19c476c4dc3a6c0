"""Chooses the fastest transport that is allowed and works on this machine."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import grpc

from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.admission.refusals import Refusals
from octofold_server.grpc_transport.arrivals import Arrivals
from octofold_server.grpc_transport.interface import Rpc, Server
from octofold_server.grpc_transport.methods import Methods
from octofold_server.system.sockets import StartupError, socket_folder

CHECK_SECONDS = 10.0

_log = logging.getLogger(__name__)


def new_server(
    kind: str, methods: Methods, options: Sequence[tuple[str, int]] = (), *, is_native: bool = False
) -> Server:
    """Make a server.

    Args:
        kind: "native", "direct", or "auto" for native if that is allowed and works, else direct.
        methods: the methods to serve.
        options: options of gRPC's C core.
        is_native: whether "auto" may choose the native transport, which is for trusted callers.

    Raises:
        StartupError: no folder can be made for the server's own socket.
        Exception: the transport does not work on this machine.
    """
    if kind == "native" or (kind == "auto" and is_native):
        try:
            # Imported late, because pygrpc_native has no wheels for some platforms.
            from octofold_server.grpc_transport.native import NativeServer

            if kind == "auto":
                _check(NativeServer)
            return NativeServer(methods, options)
        except StartupError:
            raise
        except Exception as error:
            if kind == "native":
                raise
            _log.warning(
                "the native transport does not work here, so --transport auto uses direct: %s: %s",
                *(type(error).__name__, error),
            )
    # Imported late, because the import fails if grpcio lacks the private names that `direct` uses.
    from octofold_server.grpc_transport.direct import DirectServer

    return DirectServer(methods, options)


def _check(transport: type[Server]) -> None:
    """Test a transport with one call, over a socket that only the user of this process can open.

    Raises:
        StartupError: no folder can be made for the socket.
        RuntimeError: the transport does not answer the call.
    """
    refusals = Refusals()
    methods = Methods(Arrivals(1, 1, CHECK_SECONDS, ByteBudget(2**20, refusals), refusals), refusals)

    def answer(call: Rpc, message: bytes) -> None:
        call.reply(message)

    methods.add_unary("check.Check/Check", answer)
    server = transport(methods, ())
    with socket_folder() as folder:
        address = f"unix:{folder / 'check'}"
        server.listen(address)
        server.start()
        try:
            with grpc.insecure_channel(address) as channel:
                call: Any = channel.unary_unary("/check.Check/Check")
                call(b"", timeout=CHECK_SECONDS, wait_for_ready=True)
        except grpc.RpcError as error:
            raise RuntimeError("the server did not answer its own test call") from error
        finally:
            server.stop(CHECK_SECONDS).wait(2 * CHECK_SECONDS)
