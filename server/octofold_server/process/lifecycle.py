"""Runs a server through its phases: listen, load and warm up models, serve, drain after a signal, end.

The health service reports the current phase to load balancers.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from octofold_game.errors import OctofoldError

from octofold_server.admission.admission import Admission
from octofold_server.backends.backend import BackendFactory
from octofold_server.backends.onnx_value import network_lanes
from octofold_server.config.options import Config
from octofold_server.models.loading import ServedVersion
from octofold_server.models.registry import Models
from octofold_server.models.reloading import Reloading
from octofold_server.process.assembly import LAST_BYTES_SECONDS, Parts, build, max_connections
from octofold_server.process.shared_service import ProcessSlot
from octofold_server.process.watchdog import Watchdog
from octofold_server.process.writable_paths import check_writable_paths
from octofold_server.protocols.health import Health
from octofold_server.system.connections import Connections
from octofold_server.system.native_log import NativeLog
from octofold_server.system.signals import Signals
from octofold_server.system.sockets import (
    StartupError,
    address_of,
    check_socket,
    is_loopback,
    is_socket,
    listener_on,
    port_written,
)

if TYPE_CHECKING:  # aiohttp takes a third of a second and 13 MB, and most servers have no REST port
    from octofold_server.http_transport.server import RestServer

LAST_LOAD_SECONDS = 1.0
"""Time limit for the loading thread to stop at shutdown. Reading a file or making a session may take
longer."""

LAST_SPANS_SECONDS = 2.0
"""Time limit for sending the last spans to the collector."""

_log = logging.getLogger(__name__)


class ServingError(OctofoldError):
    """The server failed and must end; the message gives the reason."""


def serve(
    config: Config, new_backends: BackendFactory = network_lanes, slot: ProcessSlot | None = None
) -> None:
    """Run a server until SIGTERM or SIGINT, then answer accepted calls for at most `config.drain` seconds.

    Call this in the main thread, which receives the signals. A second signal ends the grace period at once.
    SIGHUP reloads the models. If a model is still being loaded at shutdown, this function exits the process.
    Its arguments are those of `build`.

    Raises:
        StartupError: as in `build`, or the server cannot listen on the address, or cannot write a port file
            or the ready file.
        ServingError: gRPC has failed.
        ModelError: as in `build` and `Models.start`.
    """
    check_writable_paths(config)
    parts = build(config, new_backends, slot)
    admission, health, models = parts.admission, parts.health, parts.models
    ports = Ports(parts, lambda: _report_failure(admission, health, signals))
    admission.is_alive = ports.watchdog.is_alive
    joins = slot is not None and slot.joins
    if not joins:
        ports.bind()
    reloading = Reloading(models, config.models, config.watch)
    signals = Signals(reloading.request)

    with ExitStack() as ending:  # the callbacks run in reverse order
        ending.enter_context(NativeLog(admission.refusals.add_handshake))
        if admission.tracing is not None:
            ending.callback(admission.tracing.close, LAST_SPANS_SECONDS)
        ending.callback(models.close)
        ending.callback(reloading.close, LAST_LOAD_SECONDS)
        ending.callback(ports.close)
        if not joins:
            ports.open()
        if _load_models(models, signals):
            reloading.start()
            admission.open()
            health.serve()
            ports.open()
            if ports.rest is not None:
                ending.enter_context(port_written(config.rest_port_file, ports.rest.port))
            touched = ready_file(config.ready_file, lambda: parts.operations.ready)
            with touched, port_written(config.port_file, ports.grpc):  # written after all other files
                if slot is None or (slot.number == 0 and not joins):
                    announce_service(config, models, ports.grpc, ports.rest.port if ports.rest else None)
                    warn_if_exposed(config, ports.grpc)
                else:  # only the first process logs the models and addresses
                    address = address_of(config.host, ports.grpc)
                    _log.info("process %d is serving on %s", slot.number, address)
                _serve_until_signal(config, admission, health, signals, ports.watchdog)
    _log.info("stopped")
    if not models.wait_until_settled(LAST_LOAD_SECONDS):
        # A normal exit would wait for the loading thread, or free memory that a native library still uses.
        logging.shutdown()
        os._exit(0)


def _serve_until_signal(
    config: Config, admission: Admission, health: Health, signals: Signals, watchdog: Watchdog
) -> None:
    """Wait for a signal, serve for the grace period, and finish accepted calls.

    Raises:
        ServingError: the watchdog has found a failure.
    """
    signals.wait()
    _raise_if_failed(watchdog)
    notice = (
        f": serving for {config.grace:g} more seconds, so that clients can leave; a second Ctrl-C or SIGTERM "
        "ends this wait"
    )
    _log.info("stopping%s", notice if config.grace else "")
    admission.models.stop_loading()
    admission.leave()
    health.leave()
    signals.wait(config.grace)
    _raise_if_failed(watchdog)
    admission.refuse()
    _drain(admission, config.drain)


def _load_models(models: Models, signals: Signals) -> bool:
    """Load the models in a thread; return False if a signal to stop came before all were loaded."""
    loading: Future[None] = Future()

    def load() -> None:
        try:
            models.start()
        except BaseException as error:
            loading.set_exception(error)
        else:
            loading.set_result(None)

    loading.add_done_callback(lambda _: signals.wake())
    threading.Thread(target=load, name="loading", daemon=True).start()
    if signals.wait():
        _log.info("stopping before all models are loaded")
        models.stop_loading()
        return False
    loading.result()
    return not signals.wait(0)


def _drain(admission: Admission, limit_seconds: float) -> None:
    admission.drain(limit_seconds)
    if admission.open_calls:
        boards = sum(served.batcher.waiting for served in admission.models.served())
        _log.warning(
            "the drain time has passed (--drain %g s); calls and streams that end without an answer: %d; "
            "boards in the queues: %d",
            limit_seconds,
            admission.open_calls,
            boards,
        )


def _report_failure(admission: Admission, health: Health, signals: Signals) -> None:
    """Report that the server is not ready, and wake the thread that waits for signals."""
    admission.leave()
    health.leave()
    signals.wake()


def _raise_if_failed(watchdog: Watchdog) -> None:
    if watchdog.failure:
        raise ServingError(watchdog.failure)


def announce_service(config: Config, models: Models, port: int, rest_port: int | None) -> None:
    """Log the models, the addresses, and how to stop the server."""
    newest = {served.name: served for served in models.served()}  # sorted, so the newest comes last
    described = (_described(served, newest.get(models.default) is served) for served in models.served())
    waiting = ", ".join(f"{status.name}/{status.version}" for status in models.waiting())
    on_demand = f"; loaded when a call first asks for them: {waiting}" if waiting else ""
    _log.info("models: %s%s", ", ".join(described), on_demand)
    addresses = f"{address_of(config.host, port)} (gRPC)"
    if rest_port is not None:
        scheme = "https" if config.tls_certificate else "http"
        page = "the page, " if config.page else ""
        addresses += f" and {scheme}://{address_of(config.host, rest_port)} ({page}REST, /metrics)"
    _log.info("serving on %s; Ctrl-C or SIGTERM stops the server", addresses)


def warn_if_exposed(config: Config, port: int) -> None:
    """Log a warning if other machines may call the server without a token or a certificate."""
    if config.tokens is not None or config.tls_client_ca is not None or is_loopback(config.host):
        return
    what = "call"
    if config.admin and config.admin_tokens is None:
        what = "call, and load and unload models"
    _log.warning(
        "everyone who can reach %s may %s; require a token with --tokens", address_of(config.host, port), what
    )


def _described(served: ServedVersion, is_default: bool) -> str:
    what = served.precision or f"player {served.card.player and served.card.player.kind}"
    return f"{served.name} version {served.version} ({what}{', default' if is_default else ''})"


TOUCH_SECONDS = 2.0
"""Time between two touches of the ready file. If several touches are overdue, the server is not ready."""


@contextmanager
def ready_file(file: Path | None, is_ready: Callable[[], bool]) -> Iterator[None]:
    """Touch a file every `TOUCH_SECONDS` while the server is ready; do nothing if `file` is None.

    The file is removed while the server is not ready, and when the block ends. A health check reads the
    file's age, which needs no connection, no interpreter and no certificate. Several processes may share the
    file: if one removes the file, another ready process makes it again.

    Raises:
        StartupError: the file cannot be written.
    """
    if file is None:
        yield
        return
    try:
        file.touch()
    except OSError as error:
        raise StartupError(f"cannot write the ready file {file}: {error.strerror}") from error
    stopping = threading.Event()

    def keep() -> None:
        while not stopping.wait(TOUCH_SECONDS):
            try:
                if is_ready():
                    file.touch()
                else:
                    file.unlink(missing_ok=True)
            except OSError as error:
                _log.error("cannot update the ready file %s: %s", file, error.strerror)

    touching = threading.Thread(target=keep, name="ready file", daemon=True)
    touching.start()
    try:
        yield
    finally:
        stopping.set()
        touching.join()
        with suppress(OSError):  # the file is gone already
            file.unlink()


class Ports:
    """Binds the ports, serves on them, and watches gRPC.

    The ports are bound before models are loaded, so a server fails early if a port is in use. A process
    that joins others binds the ports only when it is ready, because a bound port gets connections at once.

    Args:
        parts: the parts of the server.
        on_failure: called once if gRPC fails.

    Attributes:
        grpc: the number of the bound gRPC port; 0 before it is bound.
        rest: the REST server; None if REST is disabled or its port is not bound yet.
        watchdog: the watchdog of gRPC.
    """

    def __init__(self, parts: Parts, on_failure: Callable[[], None]) -> None:
        self.grpc = 0
        self.rest: RestServer | None = None
        self.watchdog = Watchdog(parts.grpc, parts.admission.refusals, on_failure)
        self._parts = parts
        self._is_open = False

    def bind(self) -> None:
        """Bind the ports.

        Raises:
            StartupError: the server cannot listen on a port; the message gives the reason.
        """
        config = self._parts.config
        self.grpc = _listen(self._parts)
        if config.rest_port is not None:
            self.rest = self._parts.new_rest()

    def open(self) -> None:
        """Bind the ports if they are not yet bound, and begin to serve. A second call does nothing.

        Raises:
            StartupError: the server cannot listen on a port; the message gives the reason.
        """
        if self._is_open:
            return
        if not self.grpc:
            self.bind()
        self._parts.grpc.start()
        if self.rest is not None:
            self.rest.start()
        self._is_open = True
        self.watchdog.start(Connections(self.grpc), max_connections())

    def close(self) -> None:
        """Stop serving, and wait until the last bytes are sent, at most `LAST_BYTES_SECONDS`."""
        if self._is_open:
            stopped = self._parts.grpc.stop(LAST_BYTES_SECONDS)
            if self.rest is not None:
                self.rest.stop()
            if not self.watchdog.failure:
                stopped.wait()
                self.watchdog.stop()


def _listen(parts: Parts) -> int:
    """Bind the gRPC port, and return its number.

    A server with one process first listens on the address without gRPC, because gRPC's message about a
    failure is a page long and gives no reason.

    Raises:
        StartupError: the server cannot listen on the address; the message gives the reason.
    """
    config = parts.config
    address = address_of(config.host, config.port)
    try:
        if is_socket(config.host):
            check_socket(config.host)
        elif config.processes == 1:  # other processes on the port would lose connections to it
            listener_on(config.host, config.port).close()
        return parts.grpc.listen(address, None if parts.tls is None else parts.tls.grpc_credentials())
    except RuntimeError as error:  # gRPC cannot parse the address, or the port was taken meanwhile
        raise StartupError(f"cannot listen on {address}: gRPC cannot bind it") from error
