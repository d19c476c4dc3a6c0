"""A server's life: listen, load and warm up, serve, drain on a signal, end.

Health tells load balancers which of these it is. Knows nothing about what the RPCs do.
"""

from __future__ import annotations

import logging
import select
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from octofold_game.files import write_text
from octofold_proto.octofold.v1 import inference_pb2, inference_pb2_grpc

from octofold_server.config import Config
from octofold_server.models import Models
from octofold_server.servicer import MAX_BOARDS, MAX_MESSAGE_BYTES, MAX_STREAMS, OctofoldServicer

__all__ = ["StartupError", "health_servicer", "serve"]

SERVICE = inference_pb2.DESCRIPTOR.services_by_name["OctofoldService"].full_name

CALL_THREADS = 2 * MAX_STREAMS
"""Calls that can be open at the same time; more of them wait. Every one has a thread, which mostly sleeps.
Half of them are out of reach of streams, which may be open for days."""

HEALTH_THREADS = 2
"""For all that ask for health or watch it; watching takes one only while it changes."""

DRAIN_LIMIT_SECONDS = 30.0
"""A client that never reads its answers must not keep the process alive."""

LAST_BYTES_SECONDS = 1.0
"""For answers on their way out, and for whoever watches health, before connections are cut."""

OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # else a second server on the same port would silently take half of the calls
)

_log = logging.getLogger(__name__)


class StartupError(Exception):
    """Why the server cannot start."""


def serve(config: Config) -> None:
    """Run a server until SIGTERM or SIGINT; return once everything accepted has been answered.

    To be called by the main thread, which receives the signals. A second one ends the grace period at once.

    Raises:
        StartupError: the address cannot be listened on, or the port file cannot be written.
        ModelError: there is nothing to serve.
    """
    models = Models(config)
    servicer = OctofoldServicer(models, min(MAX_BOARDS, config.queue_capacity))
    readiness = health_servicer()
    server = grpc.server(ThreadPoolExecutor(CALL_THREADS, thread_name_prefix="call"), options=OPTIONS)
    inference_pb2_grpc.add_OctofoldServiceServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]  # generated
    health_pb2_grpc.add_HealthServicer_to_server(readiness, server)
    if config.reflection:
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
    port = _listen(server, config.host, config.port)

    signals = _Signals()
    _set_ready(readiness, False)
    server.start()
    try:
        models.load()
        if signals.wait(0):
            return
        servicer.open()
        _set_ready(readiness, True)
        with _port_written(config.port_file, port):
            _log.info("serving on %s", _address(config.host, port))
            signals.wait()
            _log.info("stopping: still serving for %g seconds", config.grace)
            _set_ready(readiness, False)
            signals.wait(config.grace)
            servicer.refuse()
            servicer.drain(DRAIN_LIMIT_SECONDS)
    finally:
        server.stop(LAST_BYTES_SECONDS).wait()
        models.close()
    _log.info("stopped")


def health_servicer() -> health.HealthServicer:
    """Health on threads of its own: a prober is answered even while every call's thread is taken."""
    threads = ThreadPoolExecutor(HEALTH_THREADS, thread_name_prefix="health")
    servicer = health.HealthServicer(experimental_non_blocking=True, experimental_thread_pool=threads)
    # What the constructor does for Watch; it does nothing for Check.
    health.HealthServicer.Check.experimental_thread_pool = threads  # type: ignore[attr-defined]
    return servicer


class _Signals:
    """SIGTERM and SIGINT, for a thread that waits for them.

    They arrive as bytes on a socket. A `threading.Event` that a handler sets would miss the signal that comes
    between the decision to wait and the wait: handlers run in the waiting thread, which would be asleep.
    """

    def __init__(self) -> None:
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        signal.set_wakeup_fd(self._sender.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the next signal; whether one came."""
        came, _, _ = select.select([self._receiver], [], [], timeout_seconds)
        return bool(came and self._receiver.recv(1))


def _set_ready(readiness: health.HealthServicer, ready: bool) -> None:
    statuses = health_pb2.HealthCheckResponse
    for service in ("", SERVICE):
        readiness.set(service, statuses.SERVING if ready else statuses.NOT_SERVING)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listen(server: grpc.Server, host: str, port: int) -> int:
    """Take the port, and return the one that was taken.

    We try the address ourselves first: gRPC's own message about it is a page long and names no reason.
    """
    address = _address(host, port)
    try:
        _try_to_listen(host, port)
        return server.add_insecure_port(address)
    except OSError as error:
        raise StartupError(f"cannot listen on {address}: {error.strerror}") from error
    except UnicodeError as error:
        raise StartupError(f"cannot listen on {address}: {host!r} is not the name of a host") from error
    except RuntimeError as error:  # gRPC knows fewer ways to write an address, and the port may just be gone
        raise StartupError(f"cannot listen on {address}: gRPC cannot bind it") from error


def _try_to_listen(host: str, port: int) -> None:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        probe.listen()


@contextmanager
def _port_written(path: Path | None, port: int) -> Iterator[None]:
    """The port is in the file at `path`, if any, until the block ends."""
    if path is None:
        yield
        return
    try:
        write_text(path, f"{port}\n")
    except OSError as error:
        raise StartupError(f"cannot write the port file {path}: {error.strerror}") from error
    try:
        yield
    finally:
        with suppress(OSError):  # whoever read it may have cleared it away
            path.unlink()
