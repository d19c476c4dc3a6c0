"""Runs a folded graph with onnxruntime, for calibration games and for the checks before publishing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

_NONE: Mapping[str, NDArray[np.float32]] = MappingProxyType({})
_BATCH = 64  # boards a run; larger batches leave the processor's caches


@dataclass(frozen=True)
class Answers:
    """The outputs of a folded graph for N boards, see `folding.fold`."""

    move: NDArray[np.int8]
    probabilities: NDArray[np.float32]
    votes: NDArray[np.uint8]
    legal: NDArray[np.bool_]


class FoldedGraph:
    """A folded graph, loaded on the CPU, with the tensors that it keeps beside itself, by name.

    Also a `Player`: `name`, `next_moves`.
    """

    def __init__(self, model: onnx.ModelProto, tensors: Mapping[str, NDArray[np.float32]] = _NONE) -> None:
        self.name = "folded graph"
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        # A busy machine, such as one that trains meanwhile, has no core to spare for threads that spin.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(tensor) for tensor in tensors.values()]
        options.add_external_initializers(list(tensors), values)
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def answer(self, boards: NDArray[np.uint8], batch: int = _BATCH) -> Answers:
        """Answers for boards `[N, 16]`, computed `batch` at a time."""
        runs = [
            self._session.run(None, {"boards": boards[first : first + batch]})
            for first in range(0, max(len(boards), 1), batch)
        ]
        return Answers(*(np.concatenate(outputs) for outputs in zip(*runs, strict=True)))

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """`[N, 16]` to moves `[N]`, -1 where no move is legal."""
        return self.answer(boards).move
