"""Makes several processes one service: they load and unload the same models, and report common metrics.

They send requests to each other over sockets in a folder that only their user can enter.

Counters never decrease, even if a process dies. Each process writes its page of metrics to a file before it
reports the page, and its replacement continues from the file. If a process dies, its counts
since its last page are lost.
"""

from __future__ import annotations

import logging
import socket
import socketserver
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
from google.protobuf.message import DecodeError
from google.rpc.code_pb2 import OK, UNKNOWN
from google.rpc.status_pb2 import Status
from octofold_game.system.files import read_regular, write_text
from octofold_proto.errors import ModelError, Unavailable
from octofold_proto.status import CODES, error_of, status_of

from octofold_server.admission.admission import Admission
from octofold_server.protocols.open_inference.operations import OpenInference
from octofold_server.system.file_lock import locked
from octofold_server.telemetry.metrics import Page, counters_of, summed

MAX_PAGE_BYTES = 1 << 26
MAX_REQUEST_BYTES = 4096

PAGE_SECONDS = 3.0
"""Time limit for another process to send its page of metrics."""

CHANGE_SECONDS = 600.0
"""Time limit for another process to load or unload a model, which may have gigabytes."""

_pages = msgspec.json.Decoder(Page)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProcessSlot:
    """The place of a process among several that serve a port.

    Attributes:
        folder: folder with a socket for each process.
        number: number of this process, from 0.
        processes: number of processes.
        joins: whether other processes may already serve. If so, no call may reach this process until it is
            ready.
    """

    folder: Path
    number: int
    processes: int
    joins: bool = False


class SharedService(OpenInference):
    """The operations of a service with several processes. Each change and the metrics cover all processes."""

    def __init__(self, slot: ProcessSlot, admission: Admission) -> None:
        super().__init__(admission)
        self._slot = slot
        self._lock = threading.Lock()  # an older page must not replace a newer one in the file
        self._saved = self._saved_counters(slot.number)
        self._others = [number for number in range(slot.processes) if number != slot.number]
        own = slot.folder / str(slot.number)
        own.unlink(missing_ok=True)  # left by a process that died
        listener = _Listener(own, self._answer)
        threading.Thread(target=listener.serve_forever, name="siblings", daemon=True).start()

    def load_model(self, name: str) -> None:
        """Load a model in all processes, as `Models.load` does in one process."""
        self._change("load", name)

    def unload(self, name: str) -> None:
        """Unload a model in all processes, as `Models.unload` does in one process."""
        self._change("unload", name)

    def metrics(self) -> Page:
        """Return the metrics of all processes; if a process does not answer, its saved counters are used."""
        answers = self._ask("page", PAGE_SECONDS)
        pages = [
            _pages.decode(answers[number]) if number in answers else self._saved_counters(number)
            for number in self._others
        ]
        return summed([self._own_page(), *pages])

    def _change(self, action: str, name: str) -> None:
        # Two changes at the same time could reach the processes in different orders.
        with locked(self._slot.folder / "changing", self._models.check_not_stopped):
            try:
                self._answer(f"{action} {name}")
            except ModelError:  # versions may have changed despite the error, and must change everywhere
                self._ask(f"{action} {name}", CHANGE_SECONDS)
                raise
            self._ask(f"{action} {name}", CHANGE_SECONDS)

    def _ask(self, request: str, limit_seconds: float) -> dict[int, str]:
        """Send a request to all other processes, and return their answers by process number.

        Processes that are gone, or that do not send their page in time, are not in the result.

        Raises:
            Unavailable: a process has not made a change in time; all other processes have answered.
            OctofoldError: a process raised this error; all other processes have answered.
            RuntimeError: a process raised an error of another type.
        """
        with ThreadPoolExecutor(max(1, len(self._others))) as callers:
            replies = callers.map(partial(self._reply, request, limit_seconds), self._others)
            answers = {number: reply for number, reply in zip(self._others, replies, strict=True) if reply}
        for reply in answers.values():
            if reply.code == UNKNOWN:
                raise RuntimeError(reply.message)
            if reply.code != OK:
                raise error_of(reply)
        return {number: reply.message for number, reply in answers.items()}

    def _reply(self, request: str, limit_seconds: float, number: int) -> Status | None:
        try:
            with socket.socket(socket.AF_UNIX) as end, end.makefile("rb") as received:
                end.settimeout(limit_seconds)
                end.connect(str(self._slot.folder / str(number)))
                end.sendall(request.encode())
                end.shutdown(socket.SHUT_WR)
                if content := received.read():
                    return Status.FromString(content)
        except (OSError, DecodeError) as error:
            # The process is stopped or stuck: it does not answer, or its socket accepts no more requests.
            if request != "page" and isinstance(error, TimeoutError | BlockingIOError):
                return status_of(Unavailable(f"process {number} does not answer; end it and repeat the call"))
        _log.info("process %d does not answer", number)
        return None

    def _answer(self, request: str) -> str:
        """Carry out a request of this or another process, and return the answer."""
        action, _, name = request.partition(" ")
        if action == "page":
            return _json(self._own_page())
        (self._models.load if action == "load" else self._models.unload)(name)
        return "done"

    def _own_page(self) -> Page:
        with self._lock:
            page = summed([super().metrics(), self._saved])
            try:
                write_text(self._file(self._slot.number), _json(page))
            except OSError as error:
                _log.warning("cannot save the counters; they are lost if this process ends: %s", error)
        return page

    def _saved_counters(self, number: int) -> Page:
        try:
            return counters_of(_pages.decode(read_regular(self._file(number), MAX_PAGE_BYTES)))
        except OSError:  # the process has not written a page yet
            return []

    def _file(self, number: int) -> Path:
        return self._slot.folder / f"{number}.metrics"


class _Listener(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, address: Path, answer: Callable[[str], str]) -> None:
        super().__init__(str(address), _Answering)
        self.answer = answer

    def handle_error(self, *_: object) -> None:
        """Log that the other process is gone; by default, a traceback is printed on standard error."""
        _log.info("another process left before it received its answer")


class _Answering(socketserver.StreamRequestHandler):
    server: _Listener

    def handle(self) -> None:
        """Answer a request with a status. If the code is OK, the message of the status is the answer."""
        try:
            reply = Status(message=self.server.answer(self.rfile.read(MAX_REQUEST_BYTES).decode()))
        except Exception as error:  # the other process raises the error
            unexpected = Status(code=UNKNOWN, message=f"{type(error).__name__}: {error}")
            reply = status_of(error) if type(error) in CODES else unexpected
        self.wfile.write(reply.SerializeToString())


def _json(page: Page) -> str:
    return msgspec.json.encode(page).decode()
