"""Methods of one message that need no admission: quick ones answer at once, those that block answer on a
few threads beside the one that serves calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from google.protobuf.message import Message
from octofold_proto.errors import QueueFull

from octofold_server.admission.admission import Admission, code_name
from octofold_server.batching.statistics import Refusals
from octofold_server.transport.arrivals import Take
from octofold_server.transport.interface import Rpc
from octofold_server.transport.unary import decoded, fail

__all__ = ["Aside", "answering"]

Request = TypeVar("Request", bound=Message)


def answering(
    admission: Admission, name: str, kind: type[Request], answer: Callable[[Request], Message]
) -> Take:
    """A method that answers a message at once.

    Args:
        admission: whose counts are told of messages that cannot be decoded.
        name: such as "package.Service/Method".
        kind: of the message.
        answer: makes the reply; what it raises becomes the status.
    """

    def method(call: Rpc, message: bytes) -> None:
        try:
            call.reply(answer(decoded(kind, message, name, admission)).SerializeToString())
        except Exception as error:
            fail(call, error, name.rpartition("/")[2])

    return method


class Aside:
    """Runs methods on threads of its own.

    Args:
        threads: how many run at the same time.
        waiting: how many more may wait; beyond, calls are refused.
        refusals: told of them.
        label: of the threads.
    """

    def __init__(self, threads: int, waiting: int, refusals: Refusals, label: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=label)
        self._most = threads + waiting
        self._room = threading.Semaphore(self._most)
        self._refusals = refusals

    def run(self, method: Take, name: str) -> Take:
        """The method of this name, run here."""

        def run(call: Rpc, message: bytes) -> None:
            try:
                method(call, message)
            finally:
                self._room.release()

        def later(call: Rpc, message: bytes) -> None:
            if self._room.acquire(blocking=False):
                self._pool.submit(run, call, message)
                return
            error = QueueFull(f"{self._most} such calls are at work, the most allowed", 1.0)
            self._refusals.add(code_name(error))
            fail(call, error, name.rpartition("/")[2])

        return later
