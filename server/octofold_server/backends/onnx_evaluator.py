"""A network that evaluates the boards of a search; see `octofold_game.contract.searches.Evaluator`."""

from __future__ import annotations

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from octofold_game.contract.graph import BOARDS, PROBABILITIES, VALUE
from octofold_game.contract.searches import padded
from octofold_proto.onnx import graph_pb2 as onnx

from octofold_server.backends.backend import BackendError, Layout, Tensors
from octofold_server.backends.onnx_pruning import keep_outputs
from octofold_server.backends.onnx_session import new_session

DEVICE_ROWS = 2048
"""A GPU always gets this many rows: it chooses how to multiply by their number, and rounds accordingly."""


class OnnxEvaluator:
    """Answers each output with the part of the graph that it needs.

    On a CPU, a session has one thread, which is the caller's: the product of a row must not depend on how
    threads share the others.

    Args:
        model: the graph.
        layout: the use of the device, with one thread.
        tensors: the tensors that the graph refers to, by name.
        largest_exponent: of the tiles that the network knows.
        cores: the threads that should ask at the same time on a CPU.

    Raises:
        GraphError: onnxruntime cannot run the graph, or the graph breaks the contract.
    """

    def __init__(
        self, model: bytes, layout: Layout, tensors: Tensors, largest_exponent: int, cores: int
    ) -> None:
        self.largest_exponent = largest_exponent
        self._on_host = layout.device == "cpu"
        self.threads = cores if self._on_host else 1
        self._sessions: dict[str, onnxruntime.InferenceSession] = {}
        for output in (PROBABILITIES, VALUE):
            parsed = onnx.Model.FromString(model)
            keep_outputs(parsed.graph, {output.name})
            if parsed.graph.output:
                graph = parsed.SerializeToString()
                self._sessions[output.name] = new_session(graph, layout, tensors, outputs=(output,))

    def __call__(self, output: str, boards: NDArray[np.uint8], /) -> NDArray[np.float32]:
        """As `Evaluator`; onnxruntime may raise any exception.

        Raises:
            BackendError: the graph has no such output.
        """
        session = self._sessions.get(output)
        if session is None:
            raise BackendError(f"the network has no output {output!r}")
        most = max(1, len(boards)) if self._on_host else DEVICE_ROWS
        answers = []
        for start in range(0, max(1, len(boards)), most):  # without boards, one piece tells the shape
            piece = boards[start : start + most]
            filled = padded(piece) if self._on_host else padded(piece, DEVICE_ROWS)
            answers.append(session.run([output], {BOARDS.name: filled})[0][: len(piece)])
        answer: NDArray[np.float32] = answers[0] if len(answers) == 1 else np.concatenate(answers)
        return answer
