"""Runs batches of boards in onnxruntime on a CPU."""

from __future__ import annotations

import ctypes
import logging
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from octofold_game.contract.model import BOARDS, MOVE, OUTPUTS
from octofold_game.errors import first_line

from octofold_server.backends.backend import EVERYTHING, Asked, Layout, Moves, Tensors
from octofold_server.backends.onnx_moves import move_graph
from octofold_server.backends.onnx_session import new_session
from octofold_server.backends.onnx_tables import Tables

FEWEST_IN_STAGES = 4
"""Boards of the smallest batch for the shorter graph, whose two stages cost a smaller one too much."""

LARGEST_KEPT = 128
"""Largest batch whose binding is kept; for larger batches, a new binding costs almost nothing."""

_TRIED = np.random.default_rng(1).integers(0, 8, (256, 16), dtype=np.uint8)
"""Boards that show whether the shorter graph has the same moves. Every model accepts their tiles."""

_DECIDED = np.array([[1, 2, 1, 2, 2, 1, 2, 1] * 2] * FEWEST_IN_STAGES, np.uint8)
"""Boards without a legal move: none is left for the second stage, and not every network takes no boards."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HostSessions:
    """The sessions of a model."""

    full: onnxruntime.InferenceSession
    "answers everything"
    moves: onnxruntime.InferenceSession | None
    "answers moves alone, in less time; None if there is no shorter graph"
    tables: Tables
    "inputs of both"

    @classmethod
    def of(cls, model: bytes, layout: Layout, tensors: Tensors, tables: Tables) -> HostSessions:
        """Make the sessions of a graph; raises what `new_session` raises for the graph itself."""
        full = new_session(model, layout, tensors)
        moves = None if tensors else _moves_session(full, model, layout, tables)
        with suppress(AttributeError, OSError):  # not glibc
            ctypes.CDLL(None).malloc_trim(
                0
            )  # returns the memory of the tables that onnxruntime has worked out
        return cls(full, moves, tables)


def _moves_session(
    full: onnxruntime.InferenceSession, model: bytes, layout: Layout, tables: Tables
) -> onnxruntime.InferenceSession | None:
    """The session of the shorter graph, with its own copy of the weights; None if there is none."""
    shorter = move_graph(model)
    if shorter is None:
        return None
    try:
        moves = new_session(shorter, layout, {}, outputs=(MOVE,))
        asked = {BOARDS.name: _TRIED, **tables}
        expected, found = (session.run([MOVE.name], asked)[0] for session in (full, moves))
        moves.run([MOVE.name], {BOARDS.name: _DECIDED, **tables})
    except Exception as error:  # onnxruntime's exceptions have no other base class
        _log.warning("moves are computed with all other answers: %s", first_line(error))
        return None
    # Batches of one graph may differ in a tie of floats; a graph that was misunderstood differs more.
    if np.count_nonzero(expected != found) > 1:
        _log.warning("moves are computed with all other answers: the shorter graph has other moves")
        return None
    return moves


class HostBatches:
    """Runs batches of exact sizes in memory of one lane: a new shape costs nothing measurable."""

    def __init__(self, sessions: HostSessions, max_batch_size: int) -> None:
        self._sessions = sessions
        self._boards = np.zeros((max_batch_size, 16), np.uint8)
        self._outputs = [np.zeros((max_batch_size, *tensor.shape), tensor.dtype) for tensor in OUTPUTS]
        self._bindings: dict[tuple[int, int], onnxruntime.IOBinding] = {}

    def run(self, boards: NDArray[np.uint8], asked: Asked = EVERYTHING) -> Moves:
        """The answers for the boards."""
        count = len(boards)
        self._boards[:count] = boards
        if self._sessions.moves is not None and not asked.outputs and count >= FEWEST_IN_STAGES:
            self._sessions.moves.run_with_iobinding(self._bound(self._sessions.moves, count, 1))
            return Moves(self._outputs[0][:count].copy())
        self._sessions.full.run_with_iobinding(self._bound(self._sessions.full, count, len(OUTPUTS)))
        if not asked.outputs:
            return Moves(self._outputs[0][:count].copy())
        return Moves(*(output[:count].copy() for output in self._outputs))

    def _bound(self, session: onnxruntime.InferenceSession, size: int, outputs: int) -> onnxruntime.IOBinding:
        """The first rows of the memory, bound to a session that has the first outputs of `OUTPUTS`."""
        binding = self._bindings.get((size, outputs))
        if binding is None:
            binding = session.io_binding()
            binding.bind_input(BOARDS.name, "cpu", 0, np.uint8, (size, 16), self._boards.ctypes.data)
            for name, table in self._sessions.tables.items():
                binding.bind_input(name, "cpu", 0, table.dtype.type, table.shape, table.ctypes.data)
            for tensor, output in zip(OUTPUTS[:outputs], self._outputs, strict=False):
                kind, shape, address = tensor.dtype.type, (size, *tensor.shape), output.ctypes.data
                binding.bind_output(tensor.name, "cpu", 0, kind, shape, address)
            if size <= LARGEST_KEPT:
                self._bindings[size, outputs] = binding
        return binding
