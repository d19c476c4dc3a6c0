"""Several processes as one service: they load and unload models together and share one page of metrics.

Counters never decrease, even if a process dies. Each process writes its page to a file before it reports the
page, and its replacement continues from the file. Counts after the last page are lost with the process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from octofold_game.system.files import read_regular, write_text
from octofold_proto.errors import ModelError

from octofold_server.admission.admission import Admission
from octofold_server.process.siblings import ProcessSlot, Siblings
from octofold_server.system.file_lock import locked
from octofold_server.telemetry.metric_families import counters_of, summed
from octofold_server.telemetry.metrics import exposition

MAX_PAGE_BYTES = 1 << 26

_log = logging.getLogger(__name__)


class SharedService:
    """The part of one process in the service.

    Args:
        slot: the slot of this process among the others.
        admission: the admission of this process.
    """

    def __init__(self, slot: ProcessSlot, admission: Admission) -> None:
        self._slot = slot
        self._admission = admission
        self._lock = threading.Lock()  # keeps pages in order
        self._before = self._counted_by(slot.number)
        abilities: dict[str, Callable[[str], Any]] = {
            "page": self._own_page,
            "load": admission.models.load,
            "unload": admission.models.unload,
        }
        self._siblings = Siblings(slot, abilities)

    def load(self, name: str) -> None:
        """Load a model in all processes.

        Raises:
            UnknownModel, ModelError, Unavailable: as in `Models.load`.
        """
        with self._turn():
            try:
                self._admission.models.load(name)
            except ModelError:  # what can be served has changed here, and must change in the others
                self._siblings.ask("load", name)
                raise
            self._siblings.ask("load", name)

    def unload(self, name: str) -> None:
        """Unload a model in all processes.

        Raises:
            UnknownModel: as in `Models.unload`.
            Unavailable: the server is shutting down.
        """
        with self._turn():
            self._admission.models.unload(name)
            self._siblings.ask("unload", name)

    def metrics(self) -> str:
        """The metrics of all processes; only the counters of a process that does not answer."""
        answers = self._siblings.ask("page", skip_silent=True)
        others = set(range(self._slot.processes)) - {self._slot.number}
        pages = [answers.get(number) or self._counted_by(number) for number in sorted(others)]
        return summed([self._own_page(), *pages])

    def _turn(self) -> AbstractContextManager[None]:
        """Changes by two processes at once would reach the processes in different orders."""
        return locked(self._slot.folder / "changing", self._admission.models.check_still_loads)

    def _own_page(self, _: str = "") -> str:
        admission = self._admission
        with self._lock:
            page = exposition(
                admission.models, admission.refusals, ready=admission.ready, open_calls=admission.open_calls
            )
            page = summed([page, self._before])
            try:
                write_text(self._file(self._slot.number), page)
            except OSError as error:
                _log.warning("cannot save the counters; they are lost if this process ends: %s", error)
        return page

    def _counted_by(self, number: int) -> str:
        try:
            return counters_of(read_regular(self._file(number), MAX_PAGE_BYTES).decode())
        except OSError:  # it has written no page yet
            return ""

    def _file(self, number: int) -> Path:
        return self._slot.folder / f"{number}.metrics"
