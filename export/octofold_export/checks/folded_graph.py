"""Runs a folded graph with onnxruntime, for all checks and for the games that provide boards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from octofold_game.contract.graph import BOARDS, MOVE, VIEWS
from octofold_game.errors import first_line
from octofold_game.system.processors import usable_cores

from octofold_export.errors import ExportError
from octofold_export.graph.sessions import new_session

_NONE: Mapping[str, NDArray[np.float32]] = MappingProxyType({})
_BATCH = 64
"""Number of boards in one run of the graph; larger batches exceed the processor's caches."""
_cores = cache(usable_cores)


@dataclass(frozen=True)
class Outputs:
    """The outputs of a folded graph for N boards, named as in `octofold_game.contract.graph`."""

    move: NDArray[np.int8]
    probabilities: NDArray[np.float32]
    votes: NDArray[np.uint8]
    legal: NDArray[np.bool_]
    views: NDArray[np.float32] | None = None
    """The probabilities `[N, V, 4]` of each view; None if the graph has no output `views`."""
    value: NDArray[np.float32] | None = None

    def first(self, count: int) -> Outputs:
        """Return the outputs for the first `count` boards."""
        views = None if self.views is None else self.views[:count]
        value = None if self.value is None else self.value[:count]
        always = self.move[:count], self.probabilities[:count], self.votes[:count], self.legal[:count]
        return Outputs(*always, views, value)


class Mover(Protocol):
    """An object that chooses moves, such as a graph."""

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Return a legal move for each board: moves `[N]` for boards `[N, 16]`; -1 where no move is legal."""


class FoldedGraph:
    """A folded graph that onnxruntime runs on the CPU. It implements `octofold_game.player.Player`.

    `tensors` are its external tensors by name.

    Raises:
        ExportError: onnxruntime cannot load the graph.
    """

    def __init__(self, model: onnx.ModelProto, tensors: Mapping[str, NDArray[np.float32]] = _NONE) -> None:
        self.name = "folded graph"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        if any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in model.graph.initializer):
            # onnxruntime 1.31 crashes when it optimizes the layout of some float16 graphs for the CPU.
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(tensor) for tensor in tensors.values()]
        options.add_external_initializers(list(tensors), values)
        try:
            self._session = new_session(model, options)
        except Exception as error:  # onnxruntime's exceptions have no other common base class
            raise ExportError(f"onnxruntime cannot load the folded graph: {first_line(error)}") from error
        self._names = [output.name for output in self._session.get_outputs()]

    @property
    def with_views(self) -> bool:
        """Whether the graph has the output `views`."""
        return VIEWS.name in self._names

    def answer(self, boards: NDArray[np.uint8], batch: int = _BATCH) -> Outputs:
        """Return the outputs for boards `[N, 16]`, computed `batch` boards at a time.

        Raises:
            ExportError: onnxruntime fails, for example because of the network's body.
        """
        return Outputs(**self._answers(boards, batch))

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Return moves `[N]` for boards `[N, 16]`; -1 where no move is legal.

        Raises:
            ExportError: onnxruntime fails, for example because of the network's body.
        """
        moves: NDArray[np.int8] = self._answers(boards, _BATCH)[MOVE.name]
        return moves

    def _answers(self, boards: NDArray[np.uint8], batch: int) -> dict[str, Any]:
        """Return the outputs by name; a graph for moves alone has the single output `move`."""
        try:
            parts = [boards[first : first + batch] for first in range(0, max(len(boards), 1), batch)]
            # One batch is too short to be divided among threads, so each thread runs whole batches.
            threads = min(_cores(), len(parts))
            if threads > 1:
                with ThreadPoolExecutor(threads) as pool:
                    runs = list(pool.map(self._run, parts))
            else:
                runs = list(map(self._run, parts))
        except Exception as error:  # onnxruntime's exceptions have no other common base class
            raise ExportError(f"onnxruntime cannot run the folded graph: {first_line(error)}") from error
        outputs = (np.concatenate(output) for output in zip(*runs, strict=True))
        return dict(zip(self._names, outputs, strict=True))

    def _run(self, boards: NDArray[np.uint8]) -> Sequence[NDArray[Any]]:
        outputs: Sequence[NDArray[Any]] = self._session.run(None, {BOARDS.name: boards})
        return outputs
