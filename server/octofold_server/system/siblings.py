"""The processes of one service, as each of them sees the others: one page of metrics over all, and models
loaded and unloaded in all, whichever process is asked.

They talk over sockets in a folder that only their user can enter. Knows nothing about how they are started.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

__all__ = ["Place", "Siblings"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """Which process of how many; the folder has a socket for each."""

    folder: Path
    number: int
    processes: int


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
        self._listener = Listener(str(own), "AF_UNIX", backlog=place.processes)
        threading.Thread(target=self._listen, name="siblings", daemon=True).start()

    def ask(self, ability: str, text: str = "") -> list[Any]:
        """What the others answer. One that is not there is passed over: when it is back, it is up to date.

        Raises:
            Exception: what the first of them raised, after all were asked.
        """
        answers = list(self._answers(ability, text))
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def _answers(self, ability: str, text: str) -> Iterator[Any]:
        for number in range(self._place.processes):
            if number == self._place.number:
                continue
            try:
                with Client(str(self._socket(number)), "AF_UNIX") as connection:
                    connection.send((ability, text))
                    yield connection.recv()
            except (OSError, EOFError):
                _log.info("process %d does not answer", number)

    def _socket(self, number: int) -> Path:
        return self._place.folder / str(number)

    def _listen(self) -> None:
        while True:
            connection = self._listener.accept()
            # Loading takes its time, and others may ask meanwhile.
            threading.Thread(target=self._answer, args=(connection,), name="sibling", daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        with connection:
            try:
                ability, text = connection.recv()
                try:
                    answer = self._abilities[ability](text)
                except Exception as error:  # it is the other's caller who wants to know
                    answer = error
                connection.send(answer)
            except (OSError, EOFError):
                _log.info("a sibling has not waited for its answer")
