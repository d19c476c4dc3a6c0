"""The life of a server: listen, load and warm up, serve, drain on a signal, end.

Health reports the current phase to load balancers.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from octofold_game.extras import install_command

from octofold_server.admission.admission import Door, Limits
from octofold_server.admission.shared_service import SharedService
from octofold_server.backends.backend import BackendFactory
from octofold_server.backends.onnx_backend import onnx_lanes
from octofold_server.config.options import Config
from octofold_server.models.registry import Models
from octofold_server.models.reloading import Reloading
from octofold_server.models.unloaded import Unloaded
from octofold_server.process.announcement import (
    announce_configuration,
    announce_service,
    announce_stop,
    warn_of_strangers,
)
from octofold_server.process.assembly import SERVICES, new_grpc_server
from octofold_server.process.ports import LAST_BYTES_SECONDS, Ports
from octofold_server.process.watchdog import Watchdog
from octofold_server.protocols.health import Health
from octofold_server.protocols.open_inference.operations import OpenInference
from octofold_server.system.native_log import NativeLog
from octofold_server.system.reread import FileError
from octofold_server.system.siblings import Place
from octofold_server.system.signals import Signals
from octofold_server.system.sockets import StartupError, address_of, listener_on, port_written
from octofold_server.system.tls import Tls
from octofold_server.transport.access import Access

if TYPE_CHECKING:  # most servers do not need these modules
    from octofold_server.admission.tracing import Tracing
    from octofold_server.transport.http_server import RestServer

LAST_LOAD_SECONDS = 1.0
"""Time for a thread that loads a model to stop. Reading a file or making a session may take longer."""

LAST_SPANS_SECONDS = 2.0
"""Time for a collector to receive the last spans."""


_log = logging.getLogger(__name__)


class ServingError(Exception):
    """The server failed and must end; the message gives the reason."""


def serve(config: Config, new_backends: BackendFactory = onnx_lanes, place: Place | None = None) -> None:
    """Run a server until SIGTERM or SIGINT, and return once all accepted calls are answered.

    Call this in the main thread, which receives the signals. A second signal ends the grace period at once.
    SIGHUP reloads the models. If a model is still loading at the end, the process ends here.

    Args:
        config: the configuration.
        new_backends: makes the lanes of a model version.
        place: the place among processes that serve the same port; None if there is only this one.

    Raises:
        StartupError: the server cannot listen on the address, a file of certificates or tokens is invalid, or
            the port file cannot be written.
        ServingError: gRPC has failed.
        ModelError: no model can be served.
    """
    health = Health(SERVICES)
    unloaded = Unloaded(None if place is None else place.folder / "unloaded")
    models = Models(config, new_backends, health.set_model, unloaded)
    tracing = _tracing() if config.tracing else None
    door = Door(models, _limits(config), tracing)
    try:
        tls = _tls(config)
        access = Access(config.tokens, config.admin_tokens, admin=config.admin, refusals=door.refusals)
    except FileError as error:
        raise StartupError(str(error)) from error
    service = OpenInference(door, SharedService(place, door) if place is not None else None)
    server = new_grpc_server(config, door, health, access, service)
    new_rest = partial(_new_rest_server, config, door, access, service, tls)
    ports = Ports(config, server, tls, new_rest, lambda: _report_failure(door, health, signals))
    door.is_alive = ports.watchdog.is_alive
    joins = place is not None and place.joins
    if not joins:
        ports.take()
    reloading = Reloading(models, config.models, config.watch)
    signals = Signals(reloading.request)
    announce_configuration(config)

    with ExitStack() as ending:  # ends in reverse order
        if tls is not None:
            ending.enter_context(NativeLog(door.refusals.add_handshake))
        if tracing is not None:
            ending.callback(tracing.close, LAST_SPANS_SECONDS)
        ending.callback(models.close)
        ending.callback(reloading.close, LAST_LOAD_SECONDS)
        ending.callback(ports.close)
        if not joins:
            ports.open()
        if _loaded(models, signals):
            reloading.start()
            door.open()
            health.serve()
            ports.open()
            if ports.rest is not None:
                ending.enter_context(port_written(config.rest_port_file, ports.rest.port))
            with port_written(config.port_file, ports.grpc):
                if place is None or (place.number == 0 and not joins):
                    announce_service(config, models, ports.grpc, ports.rest.port if ports.rest else None)
                    warn_of_strangers(config, ports.grpc)
                else:  # the same models and addresses
                    address = address_of(config.host, ports.grpc)
                    _log.info("process %d is serving on %s", place.number, address)
                _serve_until_signal(config, door, health, signals, ports.watchdog)
    _log.info("stopped")
    if not models.has_settled(LAST_LOAD_SECONDS):
        # The interpreter would wait for a loading thread, or unload memory that a native library still uses.
        logging.shutdown()
        os._exit(0)


def _serve_until_signal(
    config: Config, door: Door, health: Health, signals: Signals, watchdog: Watchdog
) -> None:
    """Wait for a signal and finish accepted calls.

    Raises:
        ServingError: the watchdog has found a failure.
    """
    signals.wait()
    _raise_if_failed(watchdog)
    announce_stop(config.grace)
    door.models.load_no_more()
    door.leave()
    health.leave()
    signals.wait(config.grace)
    _raise_if_failed(watchdog)
    door.refuse()
    _drain(door, config.drain)


def _loaded(models: Models, signals: Signals) -> bool:
    """Load the models in a thread; return False if a signal came before all were loaded."""
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
        models.load_no_more()
        return False
    loading.result()
    return not signals.wait(0)


def _drain(door: Door, limit_seconds: float) -> None:
    door.drain(limit_seconds)
    if door.open_calls:
        boards = sum(served.batcher.waiting for served in door.models.served())
        _log.warning(
            "canceled %d calls and streams after %g seconds of draining; %d boards were still waiting",
            door.open_calls,
            limit_seconds,
            boards,
        )


def _report_failure(door: Door, health: Health, signals: Signals) -> None:
    """Report not ready, and wake the thread that waits for signals."""
    door.leave()
    health.leave()
    signals.wake()


def _raise_if_failed(watchdog: Watchdog) -> None:
    if watchdog.failure:
        raise ServingError(watchdog.failure)


def _limits(config: Config) -> Limits:
    return Limits(
        boards=min(config.max_boards, config.queue_capacity),
        calls=config.max_calls,
        streams=config.max_streams,
        streams_per_connection=config.max_streams_per_connection,
        message_bytes=config.max_bytes_in_flight // 2,
    )


def _tracing() -> Tracing:
    try:
        from octofold_server.admission.tracing import Tracing
    except ModuleNotFoundError as error:
        raise StartupError(
            f"{error.name} is missing; install it with: {install_command('tracing')}"
        ) from None
    return Tracing()


def _tls(config: Config) -> Tls | None:
    if config.tls_certificate is None or config.tls_key is None:
        return None
    return Tls(config.tls_certificate, config.tls_key, config.tls_client_ca)


def _new_rest_server(
    config: Config,
    door: Door,
    access: Access,
    service: OpenInference,
    tls: Tls | None,
    grpc_answers: Callable[[], bool],
) -> RestServer:
    assert config.rest_port is not None
    # Imported late: aiohttp takes a third of a second and 13 MB.
    from octofold_server.protocols.open_inference.rest import PROBES, application
    from octofold_server.transport.http_server import RestServer

    return RestServer(
        application(door, service, access, config.max_message_bytes, config.message_timeout, grpc_answers),
        listener_on(config.host, config.rest_port, shared=config.processes > 1),
        tls.context() if tls is not None else None,
        door.refusals.add_handshake,
        LAST_BYTES_SECONDS,
        probes=PROBES,
    )
