"""The onnxruntime backend: lanes that run an exported graph, each with its own memory."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from octofold_game.contract.model import BOARDS, OUTPUTS
from octofold_game.rules import legal_moves

from octofold_server.backends.backend import EVERYTHING, Asked, Layout, Moves, Tensors
from octofold_server.backends.onnx_session import GraphError, first_line, new_session
from octofold_server.backends.onnx_tables import NO_TABLES, Tables, without_tables

_log = logging.getLogger(__name__)

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
"""Boards for the warm-up: with one legal move (each of the four), with all, and with none. Every model
accepts their tiles."""

TIMED_RUNS = 3
"""Number of measurements; the minimum counts, because disturbances only increase a time."""

MAX_SUM_ERROR = 0.01  # of probabilities in fp16

FETCHED = OUTPUTS
"""The outputs that become `Moves`, in its order."""

LARGEST_KEPT = 64
"""Largest batch on a CPU whose binding is kept; for larger batches, a new binding costs almost nothing."""


def onnx_lanes(
    model: bytes, layout: Layout, tensors: Tensors = NO_TENSORS, shared: Path | None = None
) -> Sequence[OnnxBackend]:
    """The lanes of a model.

    On a CPU, lanes of one thread share one session, and thus one copy of the weights. The session has no
    threads of its own and runs in those of the lanes. Two of these lanes answer more boards than one session
    with two threads, which wait for each other at every operator. Lanes of several threads and lanes on a GPU
    have one session each. On a CPU, all lanes share compact tables.

    Args:
        model: the graph.
        layout: the use of the device.
        tensors: the tensors that the graph refers to, by name.
        shared: folder in which the processes of a service share compact tables; None if there is only this
            one.

    Raises:
        GraphError: onnxruntime cannot run the graph, or the graph breaks the contract.
    """
    if layout.device == "cpu":
        model, tables = without_tables(model, shared)
        count = 1 if layout.threads == 1 else layout.lanes
        sessions = [new_session(model, layout, tensors) for _ in range(count)]
        return [OnnxBackend(sessions[lane % count], layout, tables) for lane in range(layout.lanes)]
    capture = layout.device == "cuda" and layout.cuda_graphs and layout.engines is None
    new = _captured if capture else new_session
    return [OnnxBackend(new(model, layout, tensors), layout) for _ in range(layout.lanes)]


class OnnxBackend:
    """One lane: memory for the boards and the answers of a batch, bound to a session.

    On CUDA, a batch is padded to the next of `batch_sizes`, because the work of the GPU is chosen and
    recorded for each shape. On a CPU, a new shape costs nothing measurable, but padding would. Batches run
    there at their exact size, and `batch_sizes` are used only for the warm-up.
    """

    def __init__(
        self, session: onnxruntime.InferenceSession, layout: Layout, tables: Tables = NO_TABLES
    ) -> None:
        self._session = session
        self._tables = tables
        self._batch_sizes = batch_sizes(layout.max_batch_size)
        self._bound: dict[int, _Bound] = {}
        self._memory = _HostMemory(layout.max_batch_size) if layout.device == "cpu" else None

    def run(self, boards: NDArray[np.uint8], _asked: Asked = EVERYTHING) -> Moves:
        """The answers for boards [N, 16] uint8; onnxruntime may raise any exception."""
        count = len(boards)
        size = count
        if self._memory is None:
            size = next(size for size in self._batch_sizes if size >= count)
        return self._bound_to(size).run(boards)

    def warm_up(self) -> None:
        """Run every batch size once, so that no caller waits for a first run, and check the answers.

        Raises:
            GraphError: a run failed, or its answers are wrong.
        """
        batches = [np.resize(EXAMPLES, (size, 16)) for size in self._batch_sizes]
        for boards in (*batches, *EXAMPLES[:, None]):
            try:
                moves = self.run(boards)
            except Exception as error:
                raise GraphError(f"a batch of {len(boards)} boards failed: {first_line(error)}") from error
            _check_answers(boards, moves)

    def batch_seconds(self, boards: int) -> float:
        """See `Backend.batch_seconds`. Other work on the machine hardly changes CPU time."""
        if self._memory is None:
            return 0.0
        batch = np.resize(EXAMPLES, (boards, 16))
        seconds = []
        for _ in range(TIMED_RUNS):
            begin = time.thread_time()
            self.run(batch)
            seconds.append(time.thread_time() - begin)
        return min(seconds)

    def _bound_to(self, size: int) -> _Bound:
        bound = self._bound.get(size)
        if bound is None:
            if self._memory is None:
                bound = DeviceBatch(self._session, size, "cuda")
            else:
                bound = _HostBatch(self._session, self._memory, size, self._tables)
            if self._memory is None or size <= LARGEST_KEPT:
                self._bound[size] = bound
        return bound


class _Bound(Protocol):
    """Memory for one batch size, bound to a session."""

    def run(self, boards: NDArray[np.uint8]) -> Moves:
        """The moves for boards that fit into the memory."""
        ...


class _HostMemory:
    """Memory for the largest batch; smaller batches use its first rows."""

    def __init__(self, boards: int) -> None:
        self.boards = np.zeros((boards, 16), np.uint8)
        self.outputs = [np.zeros((boards, *tensor.shape), tensor.dtype) for tensor in FETCHED]


class _HostBatch:
    def __init__(
        self, session: onnxruntime.InferenceSession, memory: _HostMemory, size: int, tables: Tables
    ) -> None:
        self._session = session
        self._tables = tables  # the session reads their memory
        self._boards = memory.boards[:size]
        self._outputs = [output[:size] for output in memory.outputs]
        self._binding = session.io_binding()
        shape, address = self._boards.shape, self._boards.ctypes.data
        self._binding.bind_input(BOARDS.name, "cpu", 0, np.uint8, shape, address)
        for name, table in tables.items():
            self._binding.bind_input(name, "cpu", 0, table.dtype.type, table.shape, table.ctypes.data)
        for tensor, output in zip(FETCHED, self._outputs, strict=True):
            kind, shape, address = tensor.dtype.type, output.shape, output.ctypes.data
            self._binding.bind_output(tensor.name, "cpu", 0, kind, shape, address)

    def run(self, boards: NDArray[np.uint8]) -> Moves:
        """The moves for boards that fill the memory or less."""
        self._boards[:] = boards
        self._session.run_with_iobinding(self._binding)
        return Moves(*(output.copy() for output in self._outputs))


class DeviceBatch:
    """Memory at fixed addresses on the GPU, which a recorded CUDA graph requires."""

    def __init__(self, session: onnxruntime.InferenceSession, size: int, device: str) -> None:
        self._session = session
        self._host = np.zeros((size, 16), np.uint8)  # the rows after a short batch keep their old content
        self._boards = onnxruntime.OrtValue.ortvalue_from_shape_and_type([size, 16], np.uint8, device, 0)
        self._outputs = {
            tensor.name: onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                [size, *tensor.shape], tensor.dtype.type, device, 0
            )
            for tensor in FETCHED
        }
        self._binding = session.io_binding()
        self._binding.bind_ortvalue_input(BOARDS.name, self._boards)
        for name, output in self._outputs.items():
            self._binding.bind_ortvalue_output(name, output)
        self._options = onnxruntime.RunOptions()
        self._options.add_run_config_entry("gpu_graph_id", str(size))

    def run(self, boards: NDArray[np.uint8]) -> Moves:
        """The moves for boards that fill the memory or less."""
        self._host[: len(boards)] = boards
        self._boards.update_inplace(self._host)
        self._session.run_with_iobinding(self._binding, self._options)
        return Moves(*(output.numpy() for output in self._outputs.values())).rows(0, len(boards))


def batch_sizes(largest: int) -> tuple[int, ...]:
    """The powers of two below `largest`, and `largest`: the sizes for warm-up and padding."""
    return (*(1 << power for power in range((largest - 1).bit_length())), largest)


def _captured(model: bytes, layout: Layout, tensors: Tensors) -> onnxruntime.InferenceSession:
    """A session that records the work of the GPU, if every node of the graph runs there."""
    try:
        return new_session(model, layout, tensors, capture=True)
    except GraphError as error:
        _log.info("the work on the GPU cannot be recorded: %s", error)
        return new_session(model, layout, tensors)


def _check_answers(boards: NDArray[np.uint8], answers: Moves) -> None:
    size = len(boards)
    outputs = [output for output in answers if output is not None]
    shapes = [output.shape for output in outputs]
    if shapes != [(size,), (size, 4), (size, 4), (size, 4)]:
        raise GraphError(f"the answer to a batch of {size} boards has the shapes {shapes}")
    for board, move, probabilities, said, legal in zip(
        boards, outputs[0], outputs[1], outputs[3], legal_moves(boards), strict=True
    ):
        asked = f"the board {board.tolist()} in a batch of {size}"
        allowed = np.flatnonzero(legal).tolist() or [-1]
        if move not in allowed:
            raise GraphError(f"the answer to {asked} is the move {move}; legal moves: {allowed}")
        if (said & ~legal).any() or (move >= 0 and not said[move]):
            raise GraphError(
                f"the answer to {asked} has the legal moves {np.flatnonzero(said).tolist()}; "
                f"legal moves: {allowed}"
            )
        total = probabilities.sum()  # 0 where no move is legal
        if not (probabilities >= 0).all() or min(abs(total), abs(total - 1)) > MAX_SUM_ERROR:
            raise GraphError(f"the answer to {asked} has the probabilities {probabilities.tolist()}")
