"""The onnxruntime backend: correct answers, and graphs that break the contract."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from octofold_game.contract.graph import UNPACKED_TABLES
from octofold_server.backends.backend import Layout, Tensors
from octofold_server.backends.onnx_backend import (
    NO_TENSORS,
    DeviceBatch,
    HostBatches,
    HostSessions,
    OnnxBackend,
    onnx_lanes,
)
from octofold_server.backends.onnx_pruning import GraphError
from octofold_server.backends.onnx_session import new_session
from octofold_server.backends.onnx_tables import Tables
from support.fakes import fake_moves
from support.shipped import newest


def one_lane(model: bytes, max_batch_size: int = 32, tensors: Tensors = NO_TENSORS) -> OnnxBackend:
    (lane,) = onnx_lanes(model, Layout("cpu", max_batch_size, lanes=1), tensors)
    return lane


def test_a_session_gives_the_answers_of_the_graph(graph: bytes) -> None:
    backend = one_lane(graph)
    backend.warm_up()
    boards = np.random.default_rng(0).integers(0, 15, (32, 16), dtype=np.uint8)
    boards[5] = 0
    found = backend.run(boards)._asdict()
    for name, wanted in fake_moves(boards)._asdict().items():
        np.testing.assert_array_equal(found[name], wanted)
        assert found[name].dtype == wanted.dtype


def test_a_graph_may_also_give_the_probabilities_of_each_view(graph: bytes) -> None:
    model = onnx.load_from_string(graph)
    for constant in model.graph.initializer:
        constant.name = "eight" if constant.name == "views" else constant.name
    for node in model.graph.node:
        node.input[:] = ["eight" if name == "views" else name for name in node.input]
    one = onnx.numpy_helper.from_array(np.array([1], np.int64), "one")
    model.graph.initializer.append(one)
    model.graph.node.append(onnx.helper.make_node("Unsqueeze", ["probabilities", "one"], ["views"]))
    model.graph.output.append(
        onnx.helper.make_tensor_value_info("views", onnx.TensorProto.FLOAT, ["N", 1, 4])
    )
    boards = np.random.default_rng(0).integers(0, 15, (8, 16), dtype=np.uint8)
    moves = one_lane(model.SerializeToString()).run(boards).moves
    np.testing.assert_array_equal(moves, fake_moves(boards).moves)


@pytest.mark.parametrize("threads", [1, 2])
def test_lanes_run_at_the_same_time_and_keep_their_answers_apart(graph: bytes, threads: int) -> None:
    lanes = onnx_lanes(graph, Layout("cpu", 32, lanes=4, threads=threads))
    wrong: list[int] = []

    def run(seed: int) -> None:
        backend = lanes[seed]
        boards = np.random.default_rng(seed).integers(0, 15, (seed + 1, 16), dtype=np.uint8)
        for _ in range(300):
            if not np.array_equal(backend.run(boards).moves, fake_moves(boards).moves):
                wrong.append(seed)

    runs = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for one in runs:
        one.start()
    for one in runs:
        one.join()
    assert wrong == []


@pytest.mark.parametrize("size", [0, 1, 100])
def test_bytes_that_are_not_a_graph_are_refused(graph: bytes, size: int) -> None:
    with pytest.raises(GraphError, match="cannot load the graph"):
        one_lane(graph[:size])
    with pytest.raises(GraphError, match="not valid ONNX"):
        one_lane(graph[:size] + UNPACKED_TABLES.encode())


def changed(graph: bytes, change: str) -> bytes:
    model = onnx.load_from_string(graph)
    boards, move = model.graph.input[0], model.graph.output[0]
    if change == "output renamed":
        move.name = model.graph.node[-1].output[0] = "answer"
    elif change == "output missing":
        del model.graph.output[3]
    elif change == "output of another type":
        move.type.tensor_type.elem_type = onnx.TensorProto.INT32
        model.graph.node[-1].attribute[0].i = onnx.TensorProto.INT32
    elif change == "input renamed":
        boards.name = model.graph.node[0].input[0] = "squares"
    elif change == "input of another width":
        boards.type.tensor_type.shape.dim[1].dim_value = 25
    elif change == "batch fixed":
        boards.type.tensor_type.shape.dim[0].dim_value = 8
    elif change == "input added":
        model.graph.input.append(onnx.helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, ["N"]))
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("output renamed", "'move' must be .*, got none"),
        ("output missing", "'legal' must be .*, got none"),
        ("output of another type", r"'move' must be .*int8.*got .*int32"),
        ("input renamed", "'boards' must be .*, got none"),
        ("input of another width", r"'boards' must be .*25"),
        ("batch fixed", "'boards' must have a dynamic batch dimension"),
        ("input added", "'more' must be absent"),
    ],
)
def test_a_graph_that_breaks_the_contract_is_refused_with_the_place(
    graph: bytes, change: str, message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        one_lane(changed(graph, change))


def with_tensor_outside(graph: bytes, location: str) -> bytes:
    """Return the graph with its four moves in an external file, as float32."""
    model = onnx.load_from_string(graph)
    (moves,) = (tensor for tensor in model.graph.initializer if tensor.name == "moves")
    outside = onnx.TensorProto(name="outside", data_type=onnx.TensorProto.FLOAT, dims=[4])
    outside.data_location = onnx.TensorProto.EXTERNAL
    outside.external_data.add(key="location", value=location)
    model.graph.initializer.remove(moves)
    model.graph.initializer.append(outside)
    model.graph.node.insert(0, onnx.helper.make_node("Cast", ["outside"], ["moves"], to=moves.data_type))
    return bytes(model.SerializeToString())


def test_a_graph_gets_its_external_tensors(graph: bytes) -> None:
    moves = {"outside": np.arange(4, dtype=np.float32)}
    backend = one_lane(with_tensor_outside(graph, "moves.bin"), tensors=moves)
    boards = np.random.default_rng(0).integers(0, 15, (32, 16), dtype=np.uint8)
    assert (backend.run(boards).moves == fake_moves(boards).moves).all()


@pytest.mark.parametrize("location", ["moves.bin", "../moves.bin", "{folder}/moves.bin"])
def test_paths_in_a_graph_are_not_followed(
    graph: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    (tmp_path / "below").mkdir()
    for folder in (tmp_path, tmp_path / "below"):
        (folder / "moves.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    monkeypatch.chdir(tmp_path / "below")
    with pytest.raises(GraphError, match="cannot load the graph"):
        one_lane(with_tensor_outside(graph, location.format(folder=tmp_path)))


@pytest.mark.parametrize("tensors", [{"outside": [0, 1]}, {"outside": [0, 1, 2, 3], "more": [1]}])
def test_tensors_that_do_not_fit_the_graph_are_refused(graph: bytes, tensors: dict[str, list[int]]) -> None:
    given = {name: np.array(values, np.float32) for name, values in tensors.items()}
    with pytest.raises(GraphError, match="cannot load the graph"):
        one_lane(with_tensor_outside(graph, "moves.bin"), tensors=given)


@pytest.mark.parametrize(
    ("nonsense", "message"),
    [
        ("another move", r"must be one of \[2\], got 3"),
        ("a move that there is not", "must be one of .*, got 7"),
        ("no end", r"the board \[0, 0, .* must be one of \[-1\], because the game is over, got 0"),
        ("probabilities of 8", r"the probabilities of .* got \[0.0, 0.0, 8.0, 0.0\]"),
        ("no number", "the probabilities of .* got .*nan"),
        ("all is legal", r"are \[2\], but the graph gives the legal moves \[0, 1, 2, 3\]"),
        ("nothing is legal", r"are \[2\], but the graph gives the legal moves \[\]"),
    ],
)
@pytest.mark.parametrize("max_batch_size", [1, 32])
def test_a_graph_with_invalid_answers_fails_the_warm_up(
    graph: bytes, nonsense: str, message: str, max_batch_size: int
) -> None:
    model = onnx.load_from_string(graph)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes = {node.output[0]: node for node in model.graph.node}

    def replace(name: str, values: list[int], dtype: type) -> None:
        constants[name].CopyFrom(onnx.numpy_helper.from_array(np.array(values, dtype), name))

    if nonsense == "another move":
        nodes["column"].input[1] = "three"
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([3], np.int32), "three"))
    elif nonsense == "a move that there is not":
        nodes["column"].input[1] = "seven"
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([7], np.int32), "seven"))
    elif nonsense == "no end":
        replace("none", [0], np.int32)
    elif nonsense in ("all is legal", "nothing is legal"):
        nodes["legal"].output[0] = "some"
        last = "Or" if nonsense == "all is legal" else "And"
        model.graph.initializer.append(
            onnx.numpy_helper.from_array(np.array([nonsense == "all is legal"]), "whether")
        )
        model.graph.node.append(onnx.helper.make_node(last, ["some", "whether"], ["legal"]))
    else:
        nodes["probabilities"].output[0] = "chances"
        factor = 8 if nonsense == "probabilities of 8" else np.nan
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([factor], np.float32), "factor"))
        nodes["counts"].input[0] = "chances"
        model.graph.node.append(onnx.helper.make_node("Mul", ["chances", "factor"], ["probabilities"]))
    backend = one_lane(model.SerializeToString(), max_batch_size)
    with pytest.raises(GraphError, match=message):
        backend.warm_up()


def test_an_answer_is_not_overwritten_when_the_lane_runs_again(graph: bytes) -> None:
    lane = one_lane(graph)
    boards = np.random.default_rng(0).integers(0, 15, (8, 16), dtype=np.uint8)
    first = lane.run(boards)
    lane.run(np.zeros_like(boards))
    np.testing.assert_array_equal(first.moves, fake_moves(boards).moves)


def test_short_batches_use_memory_at_a_fixed_address_as_on_a_gpu(graph: bytes) -> None:
    batch = DeviceBatch(new_session(graph, Layout("cpu", 8, lanes=1), NO_TENSORS), 8, "cpu")
    boards = np.random.default_rng(0).integers(0, 15, (8, 16), dtype=np.uint8)
    for count in (8, 3, 1, 8):
        for got, wanted in zip(batch.run(boards[:count])[:4], fake_moves(boards[:count]), strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", ["swift", "flagship", "cnn5"])
def test_int8_of_this_cpu_makes_the_moves_of_exact_arithmetic(name: str) -> None:
    model = (newest(name) / "model.int8.onnx").read_bytes()
    (lane,) = onnx_lanes(model, Layout("cpu", 64, lanes=1))
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # float32 multiplies
    exact = onnxruntime.InferenceSession(model, plain)
    random = np.random.default_rng(4)
    asked = random.integers(1, 12, (128, 16), dtype=np.uint8)
    asked[:64] *= random.random((64, 16)) < 0.7
    late = asked[::2]
    late[late > 0] += 4  # up to 32768
    (moves,) = exact.run(["move"], {"boards": asked})
    found = np.concatenate([lane.run(part).moves for part in np.split(asked, 2)])
    assert np.mean(found == moves) > 0.98  # without VNNI, sums of two products may saturate


class BusySession:
    """A session that computes for a time that depends on the batch size; its own binding."""

    def __init__(self, milliseconds: dict[int, float]) -> None:
        self._milliseconds = milliseconds
        self._size = 0

    def io_binding(self) -> BusySession:
        return BusySession(self._milliseconds)

    def bind_input(self, _name: str, _device: str, _number: int, _type: Any, shape: Any, _at: int) -> None:
        self._size = shape[0]

    def bind_output(self, *_: object) -> None:
        pass

    def run_with_iobinding(self, binding: BusySession) -> None:
        end = time.thread_time() + binding._milliseconds[binding._size] / 1000
        while time.thread_time() < end:
            pass


@pytest.mark.parametrize(
    ("in_stages", "fewest"),
    [({16: 5, 8: 1, 4: 1}, 17), ({16: 1, 8: 5, 4: 1}, 9), ({16: 1, 8: 1, 4: 5}, 5), ({16: 1, 8: 1, 4: 1}, 4)],
)
def test_the_graph_for_moves_alone_runs_from_the_batch_size_on_at_which_it_is_faster(
    in_stages: dict[int, float], fewest: int
) -> None:
    full: Any = BusySession(dict.fromkeys(in_stages, 3))
    moves: Any = BusySession(in_stages)
    sessions = HostSessions(full, moves, Tables())
    HostBatches(sessions, 64).measure_stages()
    assert sessions.fewest_alone == fewest
