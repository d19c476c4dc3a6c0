"""Calls that were begun and whose message has not come: how many there may be, and which of them must go.

Some have a thread from the start, and all take memory. A client that begins calls and never finishes them
would take every thread, and others would wait without a word. Knows nothing about messages.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any, Protocol

import grpc
from octofold_proto.errors import QueueFull

from octofold_server.admission.admission import code_name
from octofold_server.batching.statistics import Refusals

__all__ = ["Arrivals"]

PATIENCE_SECONDS = 1.0
"""A call this old gives its place to a new one; while all are younger, the new one is refused."""

QUIET_SECONDS = 60.0
"""Between two lines about it in the log."""

_log = logging.getLogger(__name__)


class Begun(Protocol):
    """A call of either kind."""

    def peer(self) -> str: ...
    def cancel(self) -> object: ...


class Arrivals:
    """The calls whose message is awaited.

    Args:
        most: how many there may be; fewer than there are threads, for those that have one.
        refusals: told of every call that ends here.
    """

    def __init__(self, most: int, refusals: Refusals) -> None:
        self._most = most
        self._refusals = refusals
        self._begun: dict[Begun, float] = {}  # since when, the oldest first
        self._quiet_until = 0.0
        self._lock = threading.Lock()  # guards the two above

    def message(self, messages: Iterator[Any], context: grpc.ServicerContext) -> Any:
        """Wait for the one message of a call that has a thread.

        Raises:
            QueueFull: too many calls have just been begun.
            CancelledError: there will be none, as when it is larger than gRPC takes.
            grpc.RpcError: likewise, and the call has ended; or its client has left; or it had to make room.
        """
        self.begin(context)
        came = False
        try:
            for message in messages:
                came = True
                return message
            raise CancelledError
        finally:
            self.end(context, came=came)

    def begin(self, call: Begun) -> None:
        """The message of this call is awaited from now on.

        Raises:
            QueueFull: too many calls have just been begun.
        """
        now = time.monotonic()
        with self._lock:
            if len(self._begun) < self._most:
                self._begun[call] = now
                return
            oldest = next(iter(self._begun))
            is_late = now - self._begun[oldest] >= PATIENCE_SECONDS
            if is_late:
                del self._begun[oldest]
                self._begun[call] = now
            is_news = now >= self._quiet_until
            if is_news:
                self._quiet_until = now + QUIET_SECONDS
        if is_news:
            _log.warning(
                "the messages of %d calls do not come; the oldest makes room for others",
                self._most,
                extra={"fields": {"client": oldest.peer()}},
            )
        if is_late:
            oldest.cancel()
        else:
            error = QueueFull(f"{self._most} calls have just been begun, the most allowed", PATIENCE_SECONDS)
            self._refusals.add(code_name(error))
            raise error

    def end(self, call: Begun, *, came: bool) -> None:
        """The message is there, or it is known that there will be none."""
        with self._lock:
            self._begun.pop(call, None)
        if not came:
            self._refusals.add("CANCELLED")
