"""Whether the services and each of the models are ready, by Check and Watch of `grpc.health.v1`.

Knows nothing about why something is ready or not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from grpc_health.v1 import health, health_pb2

__all__ = ["Health"]

THREADS = 32
"""For all that ask for health or watch it; watching takes one only while it changes."""

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Health:
    """Nothing is ready before `serve`, and nothing after `leave`.

    Args:
        services: full names of the gRPC services that are ready together, while any model is; "", the whole,
            is one of them.

    Attributes:
        servicer: to be added to the gRPC server.
    """

    def __init__(self, services: Iterable[str]) -> None:
        # On threads of its own: a prober is answered even while every call's thread is taken.
        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="health")
        self.servicer = health.HealthServicer(
            experimental_non_blocking=True, experimental_thread_pool=threads
        )
        # What the constructor does for Watch; it does nothing for Check.
        health.HealthServicer.Check.experimental_thread_pool = threads  # type: ignore[attr-defined]
        self._services = ("", *services)
        self._models: dict[str, bool] = {}  # whether a version of it is ready
        self._serving = False
        self._told: dict[str, int] = {}
        self._lock = threading.Lock()  # guards the three above
        self._tell()

    def serve(self) -> None:
        """From now on those models are ready that are, and with any of them the services."""
        with self._lock:
            self._serving = True
            self._tell()

    def leave(self) -> None:
        """From now on nothing is ready, whatever is said about models."""
        self.servicer.enter_graceful_shutdown()

    def set_model(self, name: str, ready: bool) -> None:
        """A model has, or has no, version that is ready. It is asked about like a service of that name."""
        with self._lock:
            self._models[name] = ready
            self._tell()

    def _tell(self) -> None:
        any_ready = any(self._models.values())
        for name, ready in {**self._models, **dict.fromkeys(self._services, any_ready)}.items():
            status = _SERVING if self._serving and ready else _NOT_SERVING
            if self._told.get(name) != status:  # those who watch want to hear of changes only
                self._told[name] = status
                self.servicer.set(name, status)
