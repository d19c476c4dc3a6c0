"""The processes of one service, as each of them sees the others: one page of metrics over all, and models
loaded and unloaded in all, whichever process is asked.

They talk over sockets in a folder that only their user can enter. Knows nothing about how they are started.
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
from typing import Any

__all__ = ["Place", "Siblings"]

BEAT_SECONDS = 0.5
"""Between two signs of life of a process that is at work on an answer: loading takes its time."""

SILENCE_SECONDS = 3.0
"""A process that gives no sign of life for so long is stopped or stuck, and is not waited for."""

_AT_WORK = "at work"  # an answer comes as a tuple of one
_TIMEOUT = struct.pack("ll", int(SILENCE_SECONDS), 0)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """One of several processes that serve a port.

    Attributes:
        folder: of all of them; it has a socket for each.
        number: of this process, from 0.
        processes: how many there are.
        joins: whether others may serve already, so that callers must not find this one before it is ready.
    """

    folder: Path
    number: int
    processes: int
    joins: bool = False


class Siblings:
    """The others.

    Args:
        place: of this process among them.
        abilities: what others may ask of this process, by name; each takes one text.
    """

    def __init__(self, place: Place, abilities: dict[str, Callable[[str], Any]]) -> None:
        self._place = place
        self._abilities = abilities
        own = self._socket(place.number)
        own.unlink(missing_ok=True)  # of a process that died
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(own))
        self._listener.listen()
        threading.Thread(target=self._listen, name="siblings", daemon=True).start()

    def ask(self, ability: str, text: str = "") -> dict[int, Any]:
        """What the others answer, by their numbers. One that gives no sign of life is passed over.

        Raises:
            Exception: what one of them raised, after all were asked.
        """
        asked: dict[Connection, int] = {}
        for number in range(self._place.processes):
            if number != self._place.number:
                try:
                    asked[_request(self._socket(number), (ability, text))] = number
                except OSError:
                    _log.info("process %d does not answer", number)
        answers = _collect(asked)
        for answer in answers.values():
            if isinstance(answer, Exception):
                raise answer
        return answers

    def _socket(self, number: int) -> Path:
        return self._place.folder / str(number)

    def _listen(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError as error:  # such as no file descriptor for it
                _log.warning("a sibling cannot be heard: %s", error.strerror)
                time.sleep(BEAT_SECONDS)
                continue
            connection = _connection(accepted)
            # Loading takes its time, and others may ask meanwhile.
            threading.Thread(target=self._answer, args=(connection,), name="sibling", daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        with connection:
            try:
                ability, text = connection.recv()
                answer: list[Any] = []
                work = threading.Thread(
                    target=lambda: answer.append(self._try(ability, text)), name="sibling-work", daemon=True
                )
                work.start()
                work.join(BEAT_SECONDS)
                while work.is_alive():
                    connection.send(_AT_WORK)
                    work.join(BEAT_SECONDS)
                connection.send(tuple(answer))
            except (OSError, EOFError):
                _log.info("a sibling has not waited for its answer")

    def _try(self, ability: str, text: str) -> Any:
        try:
            return self._abilities[ability](text)
        except Exception as error:  # it is the other's caller who wants to know
            return error


def _connection(end: socket.socket) -> Connection:
    """A connection on which nothing waits for longer than `SILENCE_SECONDS`."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEOUT)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEOUT)
    return Connection(end.detach())


def _request(path: Path, message: tuple[str, str]) -> Connection:
    """Send a message to the socket at `path`; the connection on which the answer comes."""
    end = socket.socket(socket.AF_UNIX)
    try:
        end.setblocking(False)  # where the queue is full, nobody has accepted anything for a while
        end.connect(str(path))
        end.setblocking(True)
    except OSError:
        end.close()
        raise
    connection = _connection(end)
    connection.send(message)
    return connection


def _collect(asked: dict[Connection, int]) -> dict[int, Any]:
    """The answers on connections, by their numbers, of those that give signs of life until they answer."""
    answers: dict[int, Any] = {}
    heard = dict.fromkeys(asked, time.monotonic())
    while heard:
        ended = set()
        for connection in wait(list(heard), BEAT_SECONDS):
            assert isinstance(connection, Connection)
            heard[connection] = time.monotonic()
            try:
                message = connection.recv()
            except (OSError, EOFError):
                ended.add(connection)
                continue
            if message != _AT_WORK:
                (answers[asked[connection]],) = message
                ended.add(connection)
        now = time.monotonic()
        ended |= {connection for connection, when in heard.items() if now - when > SILENCE_SECONDS}
        for connection in ended:
            del heard[connection]
            connection.close()
            if asked[connection] not in answers:
                _log.info("process %d does not answer", asked[connection])
    return answers
