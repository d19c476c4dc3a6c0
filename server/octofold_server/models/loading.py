"""Loads a model version: checks its files, and makes its lanes and its batcher.

The module `layouts` chooses precision, batch size, lanes and threads.
"""

from __future__ import annotations

import hashlib
import logging
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.graph import DEPTH, LEGAL, MOVE, OUTPUTS, POSITIONS, SEARCH_OUTPUTS, VALUE, Tensor
from octofold_game.contract.model import CARD_FILE, Card, GraphFile, Precision, ServedPlayer, short_digest
from octofold_game.system.files import open_regular
from octofold_proto.errors import ModelError

from octofold_server.backends.backend import Backend, BackendError, BackendFactory, Layout
from octofold_server.backends.onnx_value import ValueBackend
from octofold_server.backends.players import AllowedPlayerKinds, PlayerBackend
from octofold_server.batching.batcher import Batcher
from octofold_server.batching.search_control import SearchControl
from octofold_server.batching.statistics import ModelStatistics
from octofold_server.config.options import Config
from octofold_server.models.layouts import (
    SEARCH_BATCH_SIZE,
    choose_batch_size,
    choose_device,
    choose_layout,
    choose_precision,
    choose_search_layout,
    cpu_has_avx2,
)
from octofold_server.models.repository import VersionFolder, check_digest, read_model, read_tensors

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ServedVersion:
    """A model version that answers calls."""

    name: str
    version: str
    largest_exponent: int
    card: Card
    card_text: str
    precision: Precision | Literal[""]
    """The precision of the graph; empty for a player."""
    batcher: Batcher
    statistics: ModelStatistics
    output_names: Sequence[str] = tuple(tensor.name for tensor in OUTPUTS)
    """The names of the version's outputs, in order."""

    @property
    def graph(self) -> GraphFile | None:
        """The graph that is served; None for a player."""
        return None if self.precision == "" else self.card.precisions[self.precision]

    @cached_property
    def digest(self) -> int:
        """The first 8 bytes of the SHA-256 of the graph or the player, as an integer."""
        return short_digest(self.card.sha256_of(self.precision))

    @cached_property
    def provenance(self) -> Mapping[str, str]:
        """The digest in hexadecimal and a graph's precision, as some protocols add them to answers."""
        texts = {"precision": self.precision, "digest": f"{self.digest:016x}"}
        return {name: value for name, value in texts.items() if value}

    @cached_property
    def outputs(self) -> frozenset[str]:
        """The set of `output_names`."""
        return frozenset(self.output_names)


Loaded = tuple[Precision | Literal[""], Batcher, Sequence[Tensor]]
"""The parts of a loaded version: its precision, its batcher and its outputs."""


class Loader:
    """Loads versions of one repository; `new_backends` makes the lanes of a version.

    Raises:
        ModelError: the configuration names a kind of player or a device that cannot be used.
    """

    def __init__(self, config: Config, new_backends: BackendFactory) -> None:
        self._config = config
        try:
            self._kinds = AllowedPlayerKinds(config.players)
        except BackendError as error:
            raise ModelError(f"--players: {error}") from error
        self._new_backends = new_backends
        self._device = choose_device(config.device)

    def load(
        self, folder: VersionFolder, card: Card, card_text: str, statistics: ModelStatistics
    ) -> ServedVersion:
        """Load and warm up a version. `statistics` counts its calls, also after the version is loaded again.

        Raises:
            ModelError, MemoryError: the version cannot be served.
        """
        load = self._load_graph if card.player is None else self._load_player
        precision, batcher, tensors = load(folder, card, statistics)
        served = ServedVersion(
            folder.name,
            str(folder.version),
            card.largest_exponent,
            card,
            card_text,
            precision,
            batcher,
            statistics,
            tuple(tensor.name for tensor in tensors),
        )
        _log.info(
            "%s/%s is ready: %s on %s, %d lane%s, batches of up to %d boards",
            served.name, served.version, served.precision or f"player {card.player and card.player.kind}",
            "cpu" if card.player else self._device, batcher.lanes, "s" * (batcher.lanes > 1),
            batcher.max_batch_size,
        )  # fmt: skip
        return served

    def _load_graph(self, folder: VersionFolder, card: Card, statistics: ModelStatistics) -> Loaded:
        precision = choose_precision(card, self._config.precision, device=self._device, avx2=cpu_has_avx2())
        file = card.precisions[precision]
        layout = choose_layout(self._config, self._device, precision)
        if file.moves is None and _export_adds_moves(card) and self._device == "cpu":
            _log.info(
                "%s/%d: calls for moves alone are not faster than other calls, because the card lists no "
                "graph for moves alone (%s)",
                folder.name,
                folder.version,
                "octofold-export --extend adds one" if precision == "fp32" else "a new export makes one",
            )
        backends = self._new_warm_backends(folder.path, file, layout)
        batch_size = layout.max_batch_size
        if self._device == "cpu" and not self._config.max_batch_size:
            batch_size = choose_batch_size(layout, backends[0])
        batcher = Batcher(
            backends,
            max_batch_size=batch_size,
            queue_capacity=self._config.queue_capacity,
            name=f"{folder.name}-{folder.version}",
            statistics=statistics,
            lends=self._device == "cpu",
        )
        value = [VALUE] if isinstance(backends[0], ValueBackend) else []
        return precision, batcher, (*OUTPUTS, *value)

    def _load_player(self, folder: VersionFolder, card: Card, statistics: ModelStatistics) -> Loaded:
        player = card.player
        assert player is not None
        lanes, cores = choose_search_layout(self._config)
        try:
            files = map_files(folder.path, player)
            search = self._kinds.search(player, files, cores)
            if search.largest_exponent < card.largest_exponent:
                raise BackendError(
                    f"largest_exponent in {CARD_FILE} must be at most {search.largest_exponent}, the largest "
                    f"that the player accepts, got {card.largest_exponent}"
                )
            backend = PlayerBackend(search)
            backend.warm_up()
        except BackendError as error:
            raise ModelError(f"{player.kind}: {error}") from error
        batcher = Batcher(
            [backend] * lanes,
            max_batch_size=self._config.max_batch_size or SEARCH_BATCH_SIZE,
            queue_capacity=self._config.queue_capacity,
            name=f"{folder.name}-{folder.version}",
            statistics=statistics,
            search_control=SearchControl(cores),
        )
        tensors = (MOVE, LEGAL, *SEARCH_OUTPUTS) if search.value_unit else (MOVE, LEGAL, DEPTH, POSITIONS)
        return "", batcher, tensors

    def _new_warm_backends(self, folder: Path, file: GraphFile, layout: Layout) -> Sequence[Backend]:
        try:
            # The bytes of the files are freed as soon as the sessions have copied them.
            model, tensors = read_model(folder, file), read_tensors(folder, file)
            moves = None if file.moves is None else read_model(folder, file.moves)
            backends = self._new_backends(model, layout, tensors, moves)
            for backend in backends:
                backend.warm_up()
        except BackendError as error:
            raise ModelError(f"{file.file}: {error}") from error
        return backends


def _export_adds_moves(card: Card) -> bool:
    """Return whether a new export adds a graph for moves alone: for compact tables and votes of 8 views."""
    return card.compact_tables is not None or (card.decision_rule == "vote" and card.symmetries == 8)


MAX_FILE_BYTES = 1 << 40


def map_files(folder: Path, player: ServedPlayer) -> dict[str, NDArray[np.uint8]]:
    """Map the files that a player lists, in the folder of its version, and return their bytes by name.

    The memory is read-only and belongs to the system's file cache. A file is hashed and mapped through the
    same descriptor, so the hashed bytes are the mapped bytes.

    Raises:
        ModelError: a file cannot be read, or its SHA-256 differs from the card.
    """
    mapped = {}
    for name, listed in player.files.items():
        try:
            with open_regular(folder / listed.file, MAX_FILE_BYTES) as file:
                check_digest(listed, hashlib.file_digest(file, "sha256").hexdigest())
                mapped[name] = np.frombuffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), np.uint8)
        except (OSError, ValueError) as error:  # ValueError: the file is empty
            why = error.strerror if isinstance(error, OSError) else error
            raise ModelError(f"{listed.file} cannot be read: {why}") from error
    return mapped
