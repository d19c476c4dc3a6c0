"""Computes the output `value` of a graph with a value head, only for calls that ask for it.

onnxruntime computes all outputs of a graph, even outputs that nobody fetches. Therefore the lanes run the
graph without `value`. A batch with a call that asks for `value` runs in a session of the full graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from octofold_game.contract.graph import BOARDS, OUTPUTS, VALUE
from octofold_game.errors import first_line

from octofold_server.backends.backend import EVERYTHING, Backend, Layout, Moves, RequestedOutputs, Tensors
from octofold_server.backends.onnx_backend import EXAMPLES, NO_TENSORS, onnx_lanes
from octofold_server.backends.onnx_pruning import GraphError, keep_outputs, parsed
from octofold_server.backends.onnx_session import has_output, new_session

_NAMES = [tensor.name for tensor in (*OUTPUTS, VALUE)]


def network_lanes(
    model: bytes,
    layout: Layout,
    tensors: Tensors = NO_TENSORS,
    moves: bytes | None = None,
    shared: Path | None = None,
) -> Sequence[Backend]:
    """Return the lanes of a model, which also compute `value` if the graph has this output.

    The arguments are those of `onnx_backend.onnx_lanes`.

    Raises:
        GraphError: onnxruntime cannot run the graph, or the graph breaks the contract.
    """
    reduced = _without_value(model)
    if reduced is None:
        return onnx_lanes(model, layout, tensors, moves, shared)
    full = new_session(model, layout, tensors)
    return [ValueBackend(lane, full) for lane in onnx_lanes(reduced, layout, tensors, moves, shared)]


def _without_value(model: bytes) -> bytes | None:
    """Return the graph without `value` and the nodes that only `value` needs; None if it has no `value`."""
    if not has_output(model, VALUE.name):
        return None
    reduced = parsed(model)
    names = {output.name for output in reduced.graph.output}
    if VALUE.name not in names:
        return None
    keep_outputs(reduced.graph, names - {VALUE.name})
    return reduced.SerializeToString()


class ValueBackend:
    """A lane of a model with a value head. All lanes of the model share one session for values."""

    def __init__(self, lane: Backend, full: onnxruntime.InferenceSession) -> None:
        self._lane = lane
        self._full = full

    def run(self, boards: NDArray[np.uint8], requested: RequestedOutputs = EVERYTHING) -> Moves:
        """Return the answers for boards [N, 16] uint8; onnxruntime may raise any exception."""
        if VALUE.name not in requested.outputs:
            return self._lane.run(boards, requested)
        move, probabilities, votes, legal, value = self._full.run(_NAMES, {BOARDS.name: boards})
        return Moves(move, probabilities, votes, legal, value=value)

    def warm_up(self) -> None:
        """Warm up the lane, run the session for values once, and check the answers.

        Raises:
            GraphError: a run failed, or its answers are wrong.
        """
        self._lane.warm_up()
        try:
            answer = self.run(EXAMPLES, RequestedOutputs(frozenset({VALUE.name})))
        except Exception as error:  # onnxruntime's exceptions have only this base class
            raise GraphError(f"the output {VALUE.name!r} cannot be computed: {first_line(error)}") from error
        if answer.value is None or answer.value.shape != (len(EXAMPLES),):
            raise GraphError(f"the output {VALUE.name!r} must contain one number for each board")
        if answer.value.dtype != VALUE.dtype or not np.isfinite(answer.value).all():
            raise GraphError(
                f"the output {VALUE.name!r} must contain finite numbers of type {VALUE.dtype}, got "
                f"{answer.value.dtype} {answer.value.tolist()}"
            )

    @property
    def in_stages(self) -> bool:
        """Whether a batch for moves alone has two stages; see `Backend.in_stages`."""
        return self._lane.in_stages

    def batch_seconds(self, boards: int) -> float:
        """Measure the CPU seconds of a batch of the lane, as `Backend.batch_seconds` does."""
        return self._lane.batch_seconds(boards)
