"""A server's life: listen, load and warm up, serve, drain on a signal, end.

Health tells load balancers which of these it is. Knows nothing about what the RPCs do.
"""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import Future
from contextlib import ExitStack

from octofold_server.admission.admission import Admission
from octofold_server.backends.backend import BackendFactory
from octofold_server.backends.onnx_backend import onnx_lanes
from octofold_server.config.options import Config
from octofold_server.models.registry import Models
from octofold_server.models.reloading import Reloading
from octofold_server.process.announcement import (
    announce_configuration,
    announce_service,
    announce_stop,
    warn_of_strangers,
)
from octofold_server.process.assembly import build
from octofold_server.process.ports import Ports
from octofold_server.process.ready_file import ReadyFile
from octofold_server.process.watchdog import Watchdog
from octofold_server.protocols.health import Health
from octofold_server.system.native_log import NativeLog
from octofold_server.system.siblings import Place
from octofold_server.system.signals import Signals
from octofold_server.system.sockets import StartupError, address_of, port_written

__all__ = ["ServingError", "StartupError", "serve"]

LAST_LOAD_SECONDS = 1.0
"""For whoever is loading to notice that it should end. Reading a file or making a session may take longer; it
is not waited for."""

LAST_SPANS_SECONDS = 2.0
"""For a collector to take the last spans; there may be none."""


_log = logging.getLogger(__name__)


class ServingError(Exception):
    """Why the server ended although nobody asked it to."""


def serve(config: Config, new_backends: BackendFactory = onnx_lanes, place: Place | None = None) -> None:
    """Run a server until SIGTERM or SIGINT; return once everything accepted has been answered.

    To be called by the main thread, which receives the signals. A second one ends the grace period at once;
    SIGHUP brings the models up to date. When a model is still being loaded in the end, the process ends here.

    Args:
        config: see there.
        new_backends: makes the lanes that compute the moves of a version.
        place: among the processes that serve the same port; None when there is only this one.

    Raises:
        StartupError: the address cannot be listened on, a file of certificates or tokens is not what it
            should be, or the port file or the ready file cannot be written.
        ServingError: gRPC serves no more.
        ModelError: there is nothing to serve.
    """
    parts = build(config, new_backends, place)
    admission, health, models = parts.admission, parts.health, parts.models
    ports = Ports(parts, lambda: _report_failure(admission, health, signals))
    admission.is_alive = ports.watchdog.is_alive
    joins = place is not None and place.joins
    if not joins:
        ports.take()
    reloading = Reloading(models, config.models, config.watch)
    signals = Signals(reloading.request)
    announce_configuration(config)

    with ExitStack() as ending:  # what is entered last ends first
        if parts.tls is not None:
            ending.enter_context(NativeLog(admission.refusals.add_handshake))
        if admission.tracing is not None:
            ending.callback(admission.tracing.close, LAST_SPANS_SECONDS)
        ending.callback(models.close)
        ending.callback(reloading.close, LAST_LOAD_SECONDS)
        ending.callback(ports.close)
        if not joins:
            ports.open()
        if _loaded(models, signals):
            reloading.start()
            admission.open()
            health.serve()
            ports.open()
            if ports.rest is not None:
                ending.enter_context(port_written(config.rest_port_file, ports.rest.port))
            ready_file = ReadyFile(config.ready_file, lambda: parts.operations.ready)
            with port_written(config.port_file, ports.grpc), ready_file:
                if place is None or (place.number == 0 and not joins):
                    announce_service(config, models, ports.grpc, ports.rest.port if ports.rest else None)
                    warn_of_strangers(config, ports.grpc)
                else:  # the same models and addresses
                    address = address_of(config.host, ports.grpc)
                    _log.info("process %d is serving on %s", place.number, address)
                _serve_until_signal(config, admission, health, signals, ports.watchdog)
    _log.info("stopped")
    if not models.has_settled(LAST_LOAD_SECONDS):
        # The interpreter would wait for a thread that loads, or pull the ground from under a native library.
        logging.shutdown()
        os._exit(0)


def _serve_until_signal(
    config: Config, admission: Admission, health: Health, signals: Signals, watchdog: Watchdog
) -> None:
    """Wait for a signal, and finish what was accepted; raises ServingError when the watchdog has."""
    signals.wait()
    _raise_if_failed(watchdog)
    announce_stop(config.grace)
    admission.models.load_no_more()
    admission.leave()
    health.leave()
    signals.wait(config.grace)
    _raise_if_failed(watchdog)
    admission.refuse()
    _drain(admission, config.drain)


def _loaded(models: Models, signals: Signals) -> bool:
    """Load the models on a thread of its own; False when told to stop before all are loaded."""
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
        _log.info("stopping: not everything is loaded")
        models.load_no_more()
        return False
    loading.result()
    return not signals.wait(0)


def _drain(admission: Admission, limit_seconds: float) -> None:
    admission.drain(limit_seconds)
    if admission.open_calls:
        boards = sum(served.batcher.waiting for served in admission.models.served())
        _log.warning(
            "after %g seconds of draining, %d calls and streams are given up; %d boards were still waiting",
            limit_seconds,
            admission.open_calls,
            boards,
        )


def _report_failure(admission: Admission, health: Health, signals: Signals) -> None:
    """Nobody should come here any more, and the thread that waits for signals has something to look at."""
    admission.leave()
    health.leave()
    signals.wake()


def _raise_if_failed(watchdog: Watchdog) -> None:
    if watchdog.failure:
        raise ServingError(watchdog.failure)
