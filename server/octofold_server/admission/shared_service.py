"""Several processes as one service: they load and unload models together and have one page of metrics.

A counter never falls, whichever process is asked and whichever dies. Each process writes its page into a file
before it shows it to anybody, and the process that takes its place goes on from there. What a process counts
after its last page is lost with it. Knows nothing about how the processes are started.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from octofold_game.files import read_regular, write_text

from octofold_server.admission.admission import Admission
from octofold_server.admission.metric_sums import counters_of, summed
from octofold_server.admission.metrics import exposition
from octofold_server.system.siblings import Place, Siblings

MAX_PAGE_BYTES = 1 << 26

_log = logging.getLogger(__name__)


class SharedService:
    """This process's part of it.

    Args:
        place: of this process among the others.
        admission: of this process.
    """

    def __init__(self, place: Place, admission: Admission) -> None:
        self._place = place
        self._admission = admission
        self._lock = threading.Lock()  # pages are written in the order in which they are made
        self._before = self._counted_by(place.number)
        abilities: dict[str, Callable[[str], Any]] = {
            "page": self._own_page,
            "load": admission.models.load,
            "unload": admission.models.unload,
        }
        self._siblings = Siblings(place, abilities)

    def load(self, name: str) -> None:
        """Let the others load a model; raises what `Models.load` raises there."""
        self._siblings.ask("load", name)

    def unload(self, name: str) -> None:
        """Let the others unload a model; raises what `Models.unload` raises there."""
        self._siblings.ask("unload", name)

    def metrics(self) -> str:
        """The page of all processes; of one that does not answer, what it has counted."""
        answers = self._siblings.ask("page", skip_silent=True)
        others = set(range(self._place.processes)) - {self._place.number}
        pages = [answers.get(number) or self._counted_by(number) for number in sorted(others)]
        return summed([self._own_page(), *pages])

    def _own_page(self, _: str = "") -> str:
        admission = self._admission
        with self._lock:
            ready = admission.ready and admission.models.any_ready
            page = exposition(
                admission.models, admission.refusals, ready=ready, open_calls=admission.open_calls
            )
            page = summed([page, self._before])
            try:
                write_text(self._file(self._place.number), page)
            except OSError as error:
                _log.warning("the counters of this process would be lost with it: %s", error)
        return page

    def _counted_by(self, number: int) -> str:
        try:
            return counters_of(read_regular(self._file(number), MAX_PAGE_BYTES).decode())
        except OSError:  # it has shown nothing yet
            return ""

    def _file(self, number: int) -> Path:
        return self._place.folder / f"{number}.metrics"
