"""Measures exported graphs: how well they use several cores, and the share of matrix products in their time.

    python bench/graph/graph.py                              # the complete graphs of the newest models/cnn5
    python bench/graph/graph.py a.int8.onnx b.int8.onnx      # any graphs, in turns

Each row has two figures: boards per second by the clock, of all lanes together, and microseconds of CPU time
per board in a lane of one thread, which other load on the machine disturbs less. For 8-bit graphs, the table
also has the matrix products alone: onnxruntime's QGemm with the shapes of the graph, one after another, on
fixed memory. The difference to the graph is the cost of its other operators. The difference to one large
square product is the cost of the shapes.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from octofold_client.loadtest.boards import played_boards
from octofold_game.contract.graph import BOARDS
from octofold_game.system.processors import cpu_name, usable_cores
from octofold_server.backends.backend import Backend, Layout
from octofold_server.backends.onnx_backend import onnx_lanes
from onnx import TensorProto, helper, numpy_helper

sys.path.append(str(Path(__file__).parents[1]))  # contains harness.py

from harness import boards_per_second, new_parser, newest_version, report

BATCHES = (1, 8, 32)
SQUARE = (1024, 1024, 1024)

Shape = tuple[int, int, int]
"""Rows, inputs and outputs of a matrix product."""


def main() -> None:
    """Run the benchmark."""
    parser = new_parser(__doc__, model="cnn5", seconds=0.5, rounds=5)
    parser.add_argument(
        "graphs",
        type=Path,
        nargs="*",
        metavar="FILE.onnx",
        help="graph to measure (default: the complete graphs of the model's newest version)",
    )
    options = parser.parse_args()

    files = options.graphs or sorted(newest_version(options.models, options.model).glob("model*.onnx"))
    graphs = {str(file): file.read_bytes() for file in files}
    boards = played_boards(15, max(BATCHES))
    cores = usable_cores()
    rows: list[LanesRow | ProductsRow] = []
    profiles: dict[str, Profile] = {}
    for name, graph in graphs.items():
        for lanes, threads in sorted({(cores, 1), (1, cores)}, reverse=True):
            made = onnx_lanes(graph, Layout("cpu", max(BATCHES), lanes, threads))
            layout = "one lane per core" if threads == 1 else f"1 lane of {threads} threads"
            rows += [
                LanesRow(f"{name}: {layout}, batch {size}", threads, made, boards[:size]) for size in BATCHES
            ]
        for size in BATCHES:
            profile = profiles[f"{name}: time by operator, batch {size}"] = Profile.of(graph, boards[:size])
            if profile.products:
                rows.append(ProductsRow(f"{name}: its products alone, batch {size}", profile.products, size))
    rows.append(ProductsRow(f"none: a product of {SQUARE}", [SQUARE], 1))

    found: dict[str, list[Figures]] = {row.name: [] for row in rows}
    for _ in range(options.rounds):
        for row in rows:
            found[row.name].append(row.measure(options.seconds))
    figures = {name: _best(rounds) for name, rounds in found.items()}
    table = [
        [*name.split(": "), *(f"{value:,.0f}" if value else "" for value in values)]
        for name, values in figures.items()
    ]
    table += [[*name.split(": "), profile.shares] for name, profile in profiles.items()]
    report(
        f"graph on {cpu_name()}, {cores} cores",
        ["graph", "what", "boards/s", "CPU us/board", "GOP/s per core"],
        table,
        figures={name: values._asdict() for name, values in figures.items()},
        shares={name: profile.by_operator for name, profile in profiles.items()},
    )


class Figures(NamedTuple):
    """The result of one round or of all rounds; 0 for figures that do not apply."""

    boards_per_second: float
    cpu_us_per_board: float
    gops: float


@dataclass(frozen=True)
class LanesRow:
    """A row for lanes that run the same boards again and again."""

    name: str
    threads: int
    lanes: Sequence[Backend]
    boards: NDArray[np.uint8]

    def measure(self, seconds: float) -> Figures:
        """Run the lanes for `seconds`, then one of them for its CPU time."""
        speed = boards_per_second(self.lanes, self.boards, seconds)
        if self.threads > 1:  # the CPU time of this thread does not include the other threads
            return Figures(speed, 0, 0)
        return Figures(speed, cpu_us(lambda: self.lanes[0].run(self.boards), len(self.boards)), 0)


class ProductsRow:
    """A row for the 8-bit matrix products of a graph alone, for a batch of `boards`."""

    def __init__(self, name: str, shapes: Sequence[Shape], boards: int) -> None:
        self.name = name
        self._boards = boards
        self._operations = sum(2 * rows * inputs * outputs for rows, inputs, outputs in shapes)
        self._bound = [_product(*shape) for shape in shapes]

    def measure(self, _seconds: float) -> Figures:
        """Measure the CPU time of the products."""
        us = cpu_us(self._run, self._boards)
        return Figures(0, us, self._operations / self._boards / us / 1e3)

    def _run(self) -> None:
        for session, binding in self._bound:
            session.run_with_iobinding(binding)


@dataclass(frozen=True)
class Profile:
    """The report of onnxruntime's profiler on one graph and batch."""

    products: list[Shape]
    by_operator: dict[str, float]
    """Each operator's share of the time, the largest first."""

    @property
    def shares(self) -> str:
        """The operators with at least 1% of the time, as one line of text."""
        return " ".join(f"{name} {share:.0%}" for name, share in self.by_operator.items() if share >= 0.01)

    @classmethod
    def of(cls, graph: bytes, boards: NDArray[np.uint8], runs: int = 20) -> Profile:
        """Profile `runs` runs of a graph on `boards` `[N, 16]`."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.enable_profiling = True
        with tempfile.TemporaryDirectory() as folder:
            options.profile_file_prefix = f"{folder}/profile"
            session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
            for _ in range(runs):
                session.run(None, {BOARDS.name: boards})
            events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        nodes = [event for event in events if event["name"].endswith("_kernel_time")]
        total = sum(event["dur"] for event in nodes)
        times = Counter[str]()
        for event in nodes:
            times[event["args"]["op_name"]] += event["dur"]
        products = [_shape(event["args"]) for event in nodes if event["args"]["op_name"] == "QGemm"]
        return cls(
            products[: len(products) // runs],
            {name: round(time / total, 3) for name, time in times.most_common()},
        )


def cpu_us(run: Callable[[], object], boards: int, runs: int = 0) -> float:
    """Return the CPU time of this thread per board, in microseconds. `run` answers `boards` boards.

    `runs` is the number of timed runs; 0 chooses about 64 boards.
    """
    run()
    runs = runs or max(1, 64 // boards)
    begin = time.thread_time()
    for _ in range(runs):
        run()
    return (time.thread_time() - begin) / runs / boards * 1e6


def _best(rounds: Sequence[Figures]) -> Figures:
    """Return the median of the speeds and the minimum of the CPU times, which disturbances only increase."""
    speeds, times, rates = zip(*rounds, strict=True)
    return Figures(statistics.median(speeds), min(times), max(rates))


def _shape(arguments: dict[str, Any]) -> Shape:
    rows, inputs = next(iter(arguments["input_type_shape"][0].values()))
    outputs = next(iter(arguments["output_type_shape"][0].values()))[1]
    return rows, inputs, outputs


def _product(
    rows: int, inputs: int, outputs: int
) -> tuple[onnxruntime.InferenceSession, onnxruntime.IOBinding]:
    """Return a session of one QGemm on random numbers, with its bound memory."""
    random = np.random.default_rng(0)
    constants = {
        "scale": np.float32(0.01),
        "zero": np.uint8(0),
        "weights": random.integers(-127, 128, (inputs, outputs), np.int8),
        "weight_scales": np.full(outputs, 0.001, np.float32),
        "weight_zeros": np.zeros(outputs, np.int8),
        "bias": np.zeros(outputs, np.int32),
    }
    names = ("a", "scale", "zero", "weights", "weight_scales", "weight_zeros", "bias", "scale", "zero")
    graph = helper.make_graph(
        [helper.make_node("QGemm", names, ["c"], domain="com.microsoft")],
        "product",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, [rows, inputs])],
        [helper.make_tensor_value_info("c", TensorProto.UINT8, [rows, outputs])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    binding.bind_cpu_input("a", random.integers(0, 256, (rows, inputs), np.uint8))
    binding.bind_ortvalue_output(
        "c", onnxruntime.OrtValue.ortvalue_from_shape_and_type([rows, outputs], np.uint8)
    )
    return session, binding


if __name__ == "__main__":
    main()
