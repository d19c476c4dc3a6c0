"""Connects the processes of one service, for a common page of metrics and for loading models in all of them.

They exchange MessagePack over sockets in a folder that only their user can enter; nothing is unpickled.
"""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

import msgspec
from google.rpc.status_pb2 import Status
from octofold_proto.status import CODES, error_of, status_of

BEAT_SECONDS = 0.5
"""Interval between two heartbeats of a process that works on an answer, because loading takes long."""

SILENCE_SECONDS = 3.0
"""A process without a heartbeat for this long is stopped or stuck; nobody waits for it."""

SILENT_SECONDS = 20.0
"""A silent process is not asked again for this long, if its answer is not needed."""

MAX_MESSAGE_BYTES = 1 << 26
"""Of what one of them says."""

_TIMEOUT = struct.pack("ll", int(SILENCE_SECONDS), 0)

_log = logging.getLogger(__name__)


class SiblingFailed(Exception):
    """Another process raised an unexpected error; the message describes it."""


class _Message(msgspec.Struct, tag=True, array_like=True):
    pass


class _Request(_Message):
    ability: str
    text: str


class _Heartbeat(_Message):
    pass


class _Answer(_Message):
    value: str | None


class _Failure(_Message):
    """An error of the protocol as its status, any other error as a text."""

    status: bytes
    text: str


_messages = msgspec.msgpack.Decoder(_Request | _Heartbeat | _Answer | _Failure)


@dataclass(frozen=True)
class ProcessSlot:
    """One of several processes that serve a port.

    Attributes:
        folder: folder with a socket for each process.
        number: number of this process, from 0.
        processes: number of processes.
        joins: whether others may already serve, so that callers must not reach this one before it is ready.
    """

    folder: Path
    number: int
    processes: int
    joins: bool = False


class Siblings:
    """The other processes.

    Args:
        slot: the slot of this process.
        abilities: functions that the others may call, by name; each takes a text and returns a text or None.
    """

    def __init__(self, slot: ProcessSlot, abilities: dict[str, Callable[[str], str | None]]) -> None:
        self._slot = slot
        self._abilities = abilities
        self._silent: dict[int, float] = {}  # the last time of waiting for them without an answer
        own = self._socket(slot.number)
        own.unlink(missing_ok=True)  # left by a process that died
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(own))
        self._listener.listen()
        threading.Thread(target=self._listen, name="siblings", daemon=True).start()

    def ask(self, ability: str, text: str = "", *, skip_silent: bool = False) -> dict[int, str | None]:
        """Call a function in all other processes, and return the answers by their numbers.

        Processes without a heartbeat are left out.

        Args:
            ability: name of the function.
            text: its argument.
            skip_silent: do not ask processes that were silent recently.

        Raises:
            OctofoldError: a process raised this error; all have been asked.
            SiblingFailed: a process raised another error.
        """
        asked: dict[Connection, int] = {}
        silent = self._silent_ones() if skip_silent else set()
        for number in range(self._slot.processes):
            if number != self._slot.number and number not in silent:
                try:
                    asked[_request(self._socket(number), _Request(ability, text))] = number
                except OSError:
                    _log.info("process %d does not answer", number)
        answers, gave_up = _collect(asked)
        self._silent.update(dict.fromkeys(gave_up, time.monotonic()))
        for answer in answers.values():
            if isinstance(answer, _Failure):
                raise _error(answer)
        return {number: answer.value for number, answer in answers.items() if isinstance(answer, _Answer)}

    def _silent_ones(self) -> set[int]:
        since = time.monotonic() - SILENT_SECONDS
        return {number for number, when in list(self._silent.items()) if when > since}

    def _socket(self, number: int) -> Path:
        return self._slot.folder / str(number)

    def _listen(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError as error:  # for example, out of file descriptors
                _log.warning("cannot receive from another process: %s", error.strerror)
                time.sleep(BEAT_SECONDS)
                continue
            connection = _connection(accepted)
            # Loading takes long, and other processes may ask in the meantime.
            threading.Thread(target=self._answer, args=(connection,), name="sibling", daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        with connection:
            try:
                request = _receive(connection)
                if not isinstance(request, _Request):
                    return
                answer: list[_Message] = []
                work = threading.Thread(
                    target=lambda: answer.append(self._try(request)), name="sibling-work", daemon=True
                )
                work.start()
                work.join(BEAT_SECONDS)
                while work.is_alive():
                    _send(connection, _Heartbeat())
                    work.join(BEAT_SECONDS)
                _send(connection, answer[0])
            except (OSError, EOFError, msgspec.DecodeError):
                _log.info("another process did not wait for its answer")

    def _try(self, request: _Request) -> _Message:
        try:
            return _Answer(self._abilities[request.ability](request.text))
        except Exception as error:  # the error is for the caller in the other process
            if type(error) in CODES:
                return _Failure(status_of(error).SerializeToString(), "")
            return _Failure(b"", f"{type(error).__name__}: {error}")


def _error(failure: _Failure) -> Exception:
    return error_of(Status.FromString(failure.status)) if failure.status else SiblingFailed(failure.text)


def _send(connection: Connection, message: _Message) -> None:
    connection.send_bytes(msgspec.msgpack.encode(message))


def _receive(connection: Connection) -> _Message:
    message: _Message = _messages.decode(connection.recv_bytes(MAX_MESSAGE_BYTES))
    return message


def _connection(end: socket.socket) -> Connection:
    """A connection whose operations time out after `SILENCE_SECONDS`."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEOUT)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEOUT)
    return Connection(end.detach())


def _request(path: Path, message: _Request) -> Connection:
    """Send a message to the socket at `path`, and return the connection for the answer."""
    end = socket.socket(socket.AF_UNIX)
    try:
        end.setblocking(False)  # if the queue is full, the process has accepted nothing for a while
        end.connect(str(path))
        end.setblocking(True)
    except OSError:
        end.close()
        raise
    connection = _connection(end)
    _send(connection, message)
    return connection


def _collect(asked: dict[Connection, int]) -> tuple[dict[int, _Message], set[int]]:
    """The answers of processes with heartbeats, by number, and the numbers of the silent ones."""
    answers: dict[int, _Message] = {}
    silent: set[int] = set()
    heard = dict.fromkeys(asked, time.monotonic())
    while heard:
        ended = set()
        for connection in wait(list(heard), BEAT_SECONDS):
            assert isinstance(connection, Connection)
            heard[connection] = time.monotonic()
            try:
                message = _receive(connection)
            except (OSError, EOFError, msgspec.DecodeError):
                ended.add(connection)
                continue
            if not isinstance(message, _Heartbeat):
                answers[asked[connection]] = message
                ended.add(connection)
        now = time.monotonic()
        late = {connection for connection, when in heard.items() if now - when > SILENCE_SECONDS}
        silent |= {asked[connection] for connection in late}
        ended |= late
        for connection in ended:
            del heard[connection]
            connection.close()
            if asked[connection] not in answers:
                _log.info("process %d does not answer", asked[connection])
    return answers, silent
