"""The onnxruntime backend: lanes that run an exported graph, each with its own memory."""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from octofold_game.contract.graph import BOARDS, MOVE, OUTPUTS
from octofold_game.errors import first_line
from octofold_game.rules import legal_moves

from octofold_server.backends.backend import EVERYTHING, Layout, Moves, RequestedOutputs, Tensors
from octofold_server.backends.onnx_pruning import GraphError
from octofold_server.backends.onnx_session import new_session, with_weights
from octofold_server.backends.onnx_tables import Tables, without_tables

_log = logging.getLogger(__name__)

NO_TENSORS: Tensors = MappingProxyType({})

EXAMPLES = np.array(
    [
        [1, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 2],
        [3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3],
        [0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 2, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ],
    dtype=np.uint8,
)
"""Boards for the warm-up: two with four legal moves, four with a single one, and one with none. Every model
accepts their tiles. The second board is symmetric: its views are equal, and vote for different moves. A graph
for moves alone thus needs both stages for about a quarter of these boards, as in games."""

TIMED_RUNS = 3
"""Number of timed runs of a batch. Only the fastest run counts, because other work slows runs down."""

MAX_SUM_ERROR = 0.01
"""Maximum difference between 1 and the sum of a board's probabilities, which are rounded in fp16."""

WARM_BOARDS = 32
"""Maximum number of boards in a batch of the warm-up on a CPU."""

MOVES = RequestedOutputs()
"""A request for moves alone, the most frequent one."""


def onnx_lanes(
    model: bytes,
    layout: Layout,
    tensors: Tensors = NO_TENSORS,
    moves: bytes | None = None,
    shared: Path | None = None,
) -> Sequence[OnnxBackend]:
    """Return the lanes of a model.

    On a CPU, lanes of one thread share one session, and thus one copy of the weights. The session has no
    threads of its own and runs in the lanes' threads. Two such lanes answer more boards than one session with
    two threads, because these threads wait for each other at every operator. Each lane of several threads and
    each lane on a GPU has its own session. On a CPU, all lanes share the unpacked tables of an n-tuple
    network.

    Args:
        model: the graph.
        layout: batch size, lanes and threads.
        tensors: the tensors that the graph refers to, by name.
        moves: the graph for moves alone, used only on a CPU; None if there is none.
        shared: folder in which the processes of a service share unpacked tables; None if there is only one
            process.

    Raises:
        GraphError: onnxruntime cannot run the graph, or the graph breaks the contract.
    """
    if layout.device == "cpu":
        moves_graph = None if moves is None else with_weights(moves, model)
        model, tables = without_tables(model, shared)
        alone = None if moves_graph is None else without_tables(moves_graph, shared)[0]
        count = 1 if layout.threads == 1 else layout.lanes
        sessions = [HostSessions.of(model, alone, layout, tensors, tables) for _ in range(count)]
        return [OnnxBackend(sessions[lane % count], layout) for lane in range(layout.lanes)]
    return [OnnxBackend(_captured(model, layout, tensors), layout) for _ in range(layout.lanes)]


class OnnxBackend:
    """One lane: memory for the boards and the answers of a batch, bound to a session.

    On CUDA, a batch is padded to the next size in `batch_sizes`, because the GPU's work is chosen and
    recorded for each shape. On a CPU, a new shape costs nothing measurable, but padding would cost time:
    batches run at their exact size, and only the warm-up uses `batch_sizes`, up to `WARM_BOARDS`.
    """

    run: Callable[..., Moves]
    """A function that takes boards [N, 16] uint8 and `RequestedOutputs`, and returns `Moves`. onnxruntime may
    raise any exception."""

    def __init__(self, sessions: onnxruntime.InferenceSession | HostSessions, layout: Layout) -> None:
        self._batches: HostBatches | DeviceBatches
        self.in_stages = False
        if isinstance(sessions, HostSessions):
            self._batch_sizes = batch_sizes(min(layout.max_batch_size, WARM_BOARDS))
            self._batches = HostBatches(sessions, layout.max_batch_size)
            # If tables are inputs, the graph for moves alone has a single stage.
            self.in_stages = sessions.moves is not None and not sessions.tables
        else:
            self._batch_sizes = batch_sizes(layout.max_batch_size)
            self._batches = DeviceBatches(sessions, self._batch_sizes)
        self.run = self._batches.run

    def warm_up(self) -> None:
        """Run batches of several sizes, so that no caller waits for a first run, and check the answers.

        Raises:
            GraphError: a run failed, or its answers are wrong.
        """
        batches = [np.resize(EXAMPLES, (size, 16)) for size in self._batch_sizes]
        for boards in (*batches, *EXAMPLES[:, None]):
            try:
                alone = self.run(boards, MOVES)
                moves = self.run(boards)
            except Exception as error:
                raise GraphError(f"a batch of size {len(boards)} failed: {first_line(error)}") from error
            _check_moves(boards, alone.moves)
            _check_answers(boards, moves)
        if isinstance(self._batches, HostBatches) and self.in_stages:
            self._batches.measure_stages()

    def batch_seconds(self, boards: int) -> float:
        """Measure the CPU seconds of a batch, which hardly depend on other work. Return 0 on a GPU."""
        if isinstance(self._batches, DeviceBatches):
            return 0.0
        batch = np.resize(EXAMPLES, (boards, 16))
        seconds = []
        for _ in range(TIMED_RUNS):
            begin = time.thread_time()
            self.run(batch, MOVES)
            seconds.append(time.thread_time() - begin)
        return min(seconds)


class DeviceBatches:
    """Runs batches on a GPU, each padded to the next of a few sizes. Each size has its own memory."""

    def __init__(self, session: onnxruntime.InferenceSession, sizes: Sequence[int]) -> None:
        self._session = session
        self._sizes = sizes
        self._bound: dict[int, DeviceBatch] = {}

    def run(self, boards: NDArray[np.uint8], _requested: RequestedOutputs = EVERYTHING) -> Moves:
        """Return all outputs for boards [N, 16] uint8, with N at most the largest size."""
        size = next(size for size in self._sizes if size >= len(boards))
        if size not in self._bound:
            self._bound[size] = DeviceBatch(self._session, size, "cuda")
        return self._bound[size].run(boards)


class DeviceBatch:
    """Memory for batches of one size, at fixed addresses on the GPU, as a recorded CUDA graph requires."""

    def __init__(self, session: onnxruntime.InferenceSession, size: int, device: str) -> None:
        self._session = session
        self._host = np.zeros((size, 16), np.uint8)  # a shorter batch leaves the last rows unchanged
        self._boards = onnxruntime.OrtValue.ortvalue_from_shape_and_type([size, 16], np.uint8, device, 0)
        self._outputs = {
            tensor.name: onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                [size, *tensor.shape], tensor.dtype.type, device, 0
            )
            for tensor in OUTPUTS
        }
        self._binding = session.io_binding()
        self._binding.bind_ortvalue_input(BOARDS.name, self._boards)
        for name, output in self._outputs.items():
            self._binding.bind_ortvalue_output(name, output)
        self._options = onnxruntime.RunOptions()
        self._options.add_run_config_entry("gpu_graph_id", str(size))

    def run(self, boards: NDArray[np.uint8]) -> Moves:
        """Return all outputs for boards [N, 16] uint8, with N at most the size."""
        self._host[: len(boards)] = boards
        self._boards.update_inplace(self._host)
        self._session.run_with_iobinding(self._binding, self._options)
        return Moves(*(output.numpy() for output in self._outputs.values())).rows(0, len(boards))


def batch_sizes(largest: int) -> tuple[int, ...]:
    """Return the batch sizes for warm-up and padding: the powers of two below `largest`, and `largest`."""
    return (*(1 << power for power in range((largest - 1).bit_length())), largest)


def _captured(model: bytes, layout: Layout, tensors: Tensors) -> onnxruntime.InferenceSession:
    """Return a session that records the GPU's work as CUDA graphs; one without recording if this fails."""
    try:
        return new_session(model, layout, tensors, capture=True)
    except GraphError as error:
        _log.info("running the model without a CUDA graph, because recording one failed: %s", error)
        return new_session(model, layout, tensors)


def _check_answers(boards: NDArray[np.uint8], answers: Moves) -> None:
    size = len(boards)
    outputs = [output for output in answers if output is not None]
    shapes = [output.shape for output in outputs]
    expected = [(size,), (size, 4), (size, 4), (size, 4)]
    if shapes != expected:
        raise GraphError(f"the outputs of a batch of {size} must have the shapes {expected}, got {shapes}")
    _check_moves(boards, answers.moves)
    for board, move, probabilities, claimed, legal in zip(
        boards, outputs[0], outputs[1], outputs[3], legal_moves(boards), strict=True
    ):
        where = f"the board {board.tolist()} in a batch of {size}"
        if (claimed & ~legal).any() or (move >= 0 and not claimed[move]):
            raise GraphError(
                f"the legal moves of {where} are {np.flatnonzero(legal).tolist()}, but the graph gives the "
                f"legal moves {np.flatnonzero(claimed).tolist()} and the move {move}"
            )
        total = probabilities.sum()  # 0 if no move is legal
        if not (probabilities >= 0).all() or min(abs(total), abs(total - 1)) > MAX_SUM_ERROR:
            raise GraphError(
                f"the probabilities of {where} must be at least 0 and have the sum 1, or 0 if the game is "
                f"over, got {probabilities.tolist()}"
            )


def _check_moves(boards: NDArray[np.uint8], moves: NDArray[np.int8]) -> None:
    for board, move, legal in zip(boards, moves, legal_moves(boards), strict=True):
        allowed = np.flatnonzero(legal).tolist() or [-1]
        if move not in allowed:
            where = f"the board {board.tolist()} in a batch of {len(boards)}"
            reason = "" if legal.any() else ", because the game is over"
            raise GraphError(f"the move of {where} must be one of {allowed}{reason}, got {move}")


STAGED_SIZES = (16, 8, 4)
"""Batch sizes to measure for the graph for moves alone. Two stages save at most 4% of the time of smaller
batches."""

LARGEST_KEPT = 128
"""Maximum size of a batch whose IOBinding is kept. For a larger batch, the time to make a new one is
negligible."""


@dataclass
class HostSessions:
    """The sessions of a model on a CPU."""

    full: onnxruntime.InferenceSession
    """The session that computes all outputs."""
    moves: onnxruntime.InferenceSession | None
    """The session that computes moves alone, in less time; None if the model has no graph for moves alone."""
    tables: Tables
    """The unpacked tables that both sessions take as inputs; empty for most models."""
    fewest_alone: int = STAGED_SIZES[-1]
    """Minimum batch size for the graph for moves alone. Smaller batches run the full graph."""
    is_measured: bool = False
    """Whether `fewest_alone` was measured on this processor."""

    @classmethod
    def of(
        cls, model: bytes, alone: bytes | None, layout: Layout, tensors: Tensors, tables: Tables
    ) -> HostSessions:
        """Make the sessions of the full graph and of the graph for moves alone.

        Raises:
            GraphError: onnxruntime cannot run a graph, or a graph breaks the contract.
        """
        full = new_session(model, layout, tensors)
        moves = None if alone is None else new_session(alone, layout, NO_TENSORS, outputs=(MOVE,))
        with suppress(AttributeError, OSError):  # the C library is not glibc
            # Return freed memory to the system: onnxruntime may have unpacked tables in it.
            ctypes.CDLL(None).malloc_trim(0)
        return cls(full, moves, tables)


class HostBatches:
    """Runs batches on a CPU at their exact sizes; each lane has one instance, with its own memory."""

    def __init__(self, sessions: HostSessions, max_batch_size: int) -> None:
        self._sessions = sessions
        self._boards = np.zeros((max_batch_size, 16), np.uint8)
        self._outputs = [np.zeros((max_batch_size, *tensor.shape), tensor.dtype) for tensor in OUTPUTS]
        self._bindings: dict[tuple[int, int], onnxruntime.IOBinding] = {}

    def measure_stages(self) -> None:
        """Set `fewest_alone` of the sessions by timing both graphs, unless another lane has done this.

        On CPUs with AMX, batches of fewer than 16 boards are slower in two stages. On other CPUs, two stages
        are faster for all batch sizes that are measured.
        """
        sessions = self._sessions
        if sessions.is_measured:
            return
        sessions.is_measured = True
        boards = np.resize(EXAMPLES, (max(STAGED_SIZES), 16))[: len(self._boards)]
        for size in STAGED_SIZES:
            seconds: dict[int, list[float]] = {size: [], size + 1: []}
            for _ in range(TIMED_RUNS):
                for sessions.fewest_alone, measured in seconds.items():  # chooses the graph
                    begin = time.thread_time()
                    for start in range(0, len(boards), size):
                        self.run(boards[start : start + size], MOVES)
                    measured.append(time.thread_time() - begin)
            sessions.fewest_alone = min(seconds, key=lambda fewest: min(seconds[fewest]))
            if sessions.fewest_alone > size:
                return

    def run(self, boards: NDArray[np.uint8], requested: RequestedOutputs = EVERYTHING) -> Moves:
        """Return copies of the requested outputs, and perhaps of others, for boards [N, 16] uint8."""
        count = len(boards)
        self._boards[:count] = boards
        sessions = self._sessions
        if sessions.moves is not None and not requested.outputs and count >= sessions.fewest_alone:
            sessions.moves.run_with_iobinding(self._bound(sessions.moves, count, 1))
            return Moves(self._outputs[0][:count].copy())
        sessions.full.run_with_iobinding(self._bound(sessions.full, count, len(OUTPUTS)))
        if not requested.outputs:
            return Moves(self._outputs[0][:count].copy())
        return Moves(*[output[:count].copy() for output in self._outputs])

    def _bound(self, session: onnxruntime.InferenceSession, size: int, outputs: int) -> onnxruntime.IOBinding:
        """Return a binding of a session, with `outputs` outputs, to rows 0 to `size` - 1 of the memory."""
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
