"""Computes how each view of a board votes, for models that answer calls.

The lanes do not compute this, because it would slow down every call. A separate session computes it, and is
made when the page first asks for the views of a model.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.graph import TEMPERATURE
from octofold_game.contract.model import GraphFile
from octofold_proto.errors import ModelError

from octofold_server.backends.backend import BackendError, Layout
from octofold_server.backends.onnx_views import NoViews, ViewsSession
from octofold_server.models.loading import ServedVersion
from octofold_server.models.repository import read_model, read_tensors

MAX_SESSIONS = 3
"""Maximum number of sessions to keep. Each has a copy of the weights of its model."""

MAX_MEGABYTES = 64
"""Maximum size of a graph and its tensors together. For a larger model, no session is made."""


class Views:
    """Computes the probabilities of moves in each view. Only one thread may use an object of this class."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository
        self._sessions: OrderedDict[str, ViewsSession | None] = OrderedDict()  # by digest of the graph

    def of(self, served: ServedVersion, boards: NDArray[np.uint8]) -> NDArray[np.float32] | None:
        """Return the probabilities [N, V, 4] for boards [N, 16]; None if there are none (see `why_not`).

        Raises:
            ModelError: the files of the model cannot be read or have changed, or its graph cannot run.
        """
        graph = served.graph
        if graph is None or self._objection(served) is not None:
            return None
        digest = graph.sha256
        try:
            if digest not in self._sessions:
                self._sessions[digest] = self._new_session(served, graph)
                if len(self._sessions) > MAX_SESSIONS:
                    self._sessions.popitem(last=False)
            self._sessions.move_to_end(digest)
            session = self._sessions[digest]
            return None if session is None else session.run(boards)
        except BackendError as error:
            raise ModelError(f"{served.name} version {served.version}: {error}") from error

    def why_not(self, served: ServedVersion) -> str:
        """Return why the page cannot show the views of a model: a clause such as "a player has no views"."""
        return self._objection(served) or "its graph does not output the answers of single views"

    def _objection(self, served: ServedVersion) -> str | None:
        """Return the reason why no session is made for the views of a model; None if one may be made."""
        graph = served.graph
        if graph is None:
            return "a player has no views"
        folder = self._repository / served.name / served.version
        try:
            size = sum((folder / listed.file).stat().st_size for listed in (graph, *graph.tensors.values()))
        except OSError:
            return "its files cannot be read"
        return f"its files have more than {MAX_MEGABYTES} MB" if size > MAX_MEGABYTES << 20 else None

    def _new_session(self, served: ServedVersion, file: GraphFile) -> ViewsSession | None:
        folder = self._repository / served.name / served.version
        layout = Layout("cpu", max_batch_size=1, lanes=1, half=served.precision == "fp16")
        model, tensors = read_model(folder, file), read_tensors(folder, file)
        try:
            return ViewsSession(model, layout, tensors, served.card.temperature or TEMPERATURE)
        except NoViews:
            return None
