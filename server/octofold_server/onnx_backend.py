"""onnxruntime as a backend: loads an exported graph, checks that it keeps the contract, runs it.

Knows nothing about model repositories: it is given the graph's bytes, and the tensors that are not in them.
"""

from __future__ import annotations

import ctypes
import os
from types import MappingProxyType

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from octofold_game.rules import legal_moves

from octofold_server.backend import BackendError, Moves, Tensors

__all__ = ["GraphError", "OnnxBackend", "batch_sizes", "cuda_is_available"]

INPUTS = {"boards": ("tensor(uint8)", [16])}
OUTPUTS = {
    "move": ("tensor(int8)", []),
    "probabilities": ("tensor(float)", [4]),
    "votes": ("tensor(uint8)", [4]),
    "legal": ("tensor(bool)", [4]),
}
"""The graph contract: name, element type, and the shape behind the batch dimension."""

NO_TENSORS: Tensors = MappingProxyType({})

EXAMPLES = np.array(
    [
        [1, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 2],
        [3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3],
        [0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 2, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ],
    dtype=np.uint8,
)
"""Boards for the warm-up: with one legal move, each of the four, with all, and with none. Every model knows
their tiles."""

MAX_SUM_ERROR = 0.01  # of probabilities in fp16

FETCHED = ("move", "probabilities", "votes")  # the replies have no use for legal


class GraphError(BackendError):
    """The bytes are not a graph that onnxruntime runs, or the graph breaks the contract."""


class OnnxBackend:
    """One onnxruntime session, shared by all lanes.

    On a CPU the session has no threads of its own and runs in the thread that calls it. Two lanes so answer
    half as many boards again as one session with two threads, which wait for each other at every operator.

    On CUDA a batch is padded to the next of `batch_sizes`, because each new shape costs a search for kernels.
    On a CPU a new shape costs nothing measurable and padding would: batches run at their exact size, and
    `batch_sizes` serve the warm-up alone.

    Args:
        model: the graph.
        device: "cpu" or "cuda".
        max_batch_size: boards in a batch at most.
        tensors: what the graph refers to, by name. They are copied; no path in the graph is followed.

    Raises:
        GraphError: see there.
    """

    def __init__(self, model: bytes, device: str, max_batch_size: int, tensors: Tensors = NO_TENSORS) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # what is worth knowing reaches us as an exception
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        # A spinning thread would take the front end's core.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # Where a graph says that it keeps tensors is looked up below a file, which finds nothing.
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(tensor) for tensor in tensors.values()]
        options.add_external_initializers(list(tensors), values)
        providers = ["CUDAExecutionProvider"] if device == "cuda" else []
        try:
            self._session = onnxruntime.InferenceSession(
                model, options, providers=[*providers, "CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's exceptions have no other base class
            raise GraphError(f"onnxruntime cannot load it: {_first_line(error)}") from error
        if providers and self._session.get_providers()[0] != providers[0]:
            raise GraphError("onnxruntime cannot use CUDA here; its libraries or cuDNN may be missing")
        _check_contract(self._session)
        self._pads = device == "cuda"
        self._batch_sizes = batch_sizes(max_batch_size)

    def run(self, boards: NDArray[np.uint8]) -> Moves:
        """The moves of boards [N, 16] uint8; raises what onnxruntime raises."""
        count = len(boards)
        if self._pads:
            padded = next(size for size in self._batch_sizes if size >= count)
            boards = np.pad(boards, ((0, padded - count), (0, 0)))
        outputs = Moves(*self._session.run(FETCHED, {"boards": boards}))
        return outputs.rows(0, count) if self._pads else outputs

    def warm_up(self) -> None:
        """Run every batch size once, so that no caller pays for a first run, and look at the answers.

        Raises:
            GraphError: a run failed, or its answers cannot be right.
        """
        batches = [np.resize(EXAMPLES, (size, 16)) for size in self._batch_sizes]
        for boards in (*batches, *EXAMPLES[:, None]):
            try:
                moves = self.run(boards)
            except Exception as error:
                raise GraphError(f"a batch of {len(boards)} boards fails: {_first_line(error)}") from error
            _check_answers(boards, moves)


def batch_sizes(largest: int) -> tuple[int, ...]:
    """The powers of two below `largest`, and `largest`: the sizes for warm-up and for padding."""
    return (*(1 << power for power in range((largest - 1).bit_length())), largest)


def cuda_is_available() -> bool:
    """Whether onnxruntime was built with CUDA, and the driver finds a GPU."""
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return False
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def _check_contract(session: onnxruntime.InferenceSession) -> None:
    for kind, arguments, contract in (
        ("input", session.get_inputs(), INPUTS),
        ("output", session.get_outputs(), OUTPUTS),
    ):
        found = {argument.name: (argument.type, list(argument.shape[1:])) for argument in arguments}
        for name in (*contract, *found):
            if found.get(name) != contract.get(name):
                raise GraphError(
                    f"its {kind} {name!r} is {found.get(name, 'missing')}; "
                    f"the graph contract says {contract.get(name, 'there is none')}"
                )
        for argument in arguments:
            if not argument.shape or isinstance(argument.shape[0], int):
                raise GraphError(f"its {kind} {argument.name!r} has no dynamic batch dimension")


def _check_answers(boards: NDArray[np.uint8], answers: Moves) -> None:
    size = len(boards)
    shapes = [output.shape for output in answers]
    if shapes != [(size,), (size, 4), (size, 4)]:
        raise GraphError(f"a batch of {size} boards is answered with the shapes {shapes}")
    for board, move, probabilities, legal in zip(
        boards, answers.moves, answers.probabilities, legal_moves(boards), strict=True
    ):
        asked = f"the board {board.tolist()} in a batch of {size}"
        allowed = np.flatnonzero(legal).tolist() or [-1]
        if move not in allowed:
            raise GraphError(f"{asked} is answered with the move {move}; legal there: {allowed}")
        total = probabilities.sum()  # 0 where no move is legal
        if not (probabilities >= 0).all() or min(abs(total), abs(total - 1)) > MAX_SUM_ERROR:
            raise GraphError(f"{asked} is answered with the probabilities {probabilities.tolist()}")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
