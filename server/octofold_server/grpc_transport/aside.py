"""Unary methods that need no admission.

Quick methods answer at once. Methods that block run on a few threads of their own, so that they do not delay
the thread that serves calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from google.protobuf.message import Message
from octofold_proto.errors import QueueFull

from octofold_server.admission.admission import Admission, code_name
from octofold_server.admission.refusals import RETRY_SECONDS, Refusals, log_change
from octofold_server.grpc_transport.interface import Rpc
from octofold_server.grpc_transport.unary import TakeOne, decode, fail, request_id_of

Request = TypeVar("Request", bound=Message)


def answering(
    admission: Admission,
    name: str,
    kind: type[Request],
    answer: Callable[[Request], Message],
    *,
    is_logged: bool = False,
) -> TakeOne:
    """Make a method that answers a message at once.

    Args:
        admission: counts the messages that cannot be decoded.
        name: full name of the method, such as "package.Service/Method".
        kind: type of the request message.
        answer: makes the reply; its exceptions become the status of the call.
        is_logged: whether an answered call is logged, with its caller.
    """

    def method(call: Rpc, message: bytes) -> None:
        try:
            reply = answer(decode(kind, message, name, admission))
            if is_logged:
                log_change(name.rpartition("/")[2], request_id_of(call.metadata), call.peer())
            call.reply(reply.SerializeToString())
        except Exception as error:
            fail(call, error, name.rpartition("/")[2])

    return method


class Aside:
    """Runs methods on threads of its own.

    Args:
        threads: number of calls that run at the same time.
        waiting: maximum number of calls that wait for a thread; further calls are refused.
        refusals: counts the refused calls.
        label: prefix of the thread names.
    """

    def __init__(self, threads: int, waiting: int, refusals: Refusals, label: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=label)
        self._most = threads + waiting
        self._room = threading.Semaphore(self._most)
        self._refusals = refusals

    def run(self, method: TakeOne, name: str) -> TakeOne:
        """Wrap a method, so that its calls run on these threads.

        Args:
            method: the method to wrap.
            name: its full name, such as "package.Service/Method".
        """

        def run(call: Rpc, message: bytes) -> None:
            try:
                method(call, message)
            finally:
                self._room.release()

        def later(call: Rpc, message: bytes) -> None:
            if self._room.acquire(blocking=False):
                self._pool.submit(run, call, message)
                return
            error = QueueFull(f"{self._most} such calls are in progress, the maximum", RETRY_SECONDS)
            self._refusals.add(code_name(error))
            fail(call, error, name.rpartition("/")[2])

        return later
