"""ONNX files with what few exporters write: taken where they play, refused by name where they cannot."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from octofold_export.cli import main
from octofold_game.rules import legal_moves
from onnx import TensorProto, helper, numpy_helper
from support.lessons import Lessons
from support.linear_onnx import linear_weights

FAST = ["--precisions", "fp32", "--symmetries", "2", "--answer", "policy_logits"]
READS = ["--input", "one_hot", "--layout", "flat", "--planes", "16"]


@pytest.fixture(scope="module")
def weights(lessons: Lessons) -> NDArray[np.float32]:
    return linear_weights(lessons)


def save(
    file: Path,
    nodes: Sequence[onnx.NodeProto],
    constants: Sequence[onnx.TensorProto] = (),
    *,
    shape: Sequence[int | str] | None = ("N", 256),
    element: int = TensorProto.FLOAT,
    inputs: Sequence[onnx.ValueInfoProto] = (),
    opset: tuple[str, int] = ("", 18),
    ir_version: int = 8,
) -> None:
    cells = helper.make_tensor_value_info("cells", element, shape)
    policy = helper.make_tensor_value_info("policy", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "odd", [cells, *inputs], [policy], constants)
    imports = [helper.make_opsetid(*opset)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=ir_version), file)


def product(output: str = "policy", operator: str = "MatMul", domain: str = "") -> onnx.NodeProto:
    return helper.make_node(operator, ["cells", "weights"], [output], domain=domain)


def publish(folder: Path, boards: Path, *more: str) -> int:
    place = ["--onnx", str(folder / "odd.onnx"), "--name", "odd", "--models", str(folder / "models")]
    return main([*place, "--boards", str(boards), *FAST, *READS, *more])


def check_moves(folder: Path, weights: NDArray[np.float32], boards: NDArray[np.uint8]) -> None:
    """The published file plays the largest legal mean of its two views."""

    def logits(seen: NDArray[np.uint8]) -> NDArray[np.float64]:
        sums = np.where(legal_moves(seen), np.eye(16)[seen].reshape(len(seen), -1) @ weights, -np.inf)
        odds = np.exp(sums - sums.max(axis=1, keepdims=True))
        shares: NDArray[np.float64] = odds / odds.sum(axis=1, keepdims=True)
        return shares

    half_turn = np.ascontiguousarray(boards[:, ::-1])
    mean = (logits(boards) + logits(half_turn)[:, [2, 3, 0, 1]]) / 2
    session = onnxruntime.InferenceSession(
        folder / "models/odd/1/model.onnx", providers=["CPUExecutionProvider"]
    )
    probabilities, move = session.run(["probabilities", "move"], {"boards": boards})
    np.testing.assert_allclose(probabilities, mean, atol=1e-4)
    assert (move >= 0).all()


def old(file: Path, weights: NDArray[np.float32]) -> None:
    """As before IR version 4, weights are inputs, too."""
    also = helper.make_tensor_value_info("weights", TensorProto.FLOAT, weights.shape)
    constant = numpy_helper.from_array(weights, "weights")
    save(file, [product()], [constant], inputs=[also], opset=("", 7), ir_version=3)


def shapeless(file: Path, weights: NDArray[np.float32]) -> None:
    save(file, [product()], [numpy_helper.from_array(weights, "weights")], shape=None)


def foreign(file: Path, weights: NDArray[np.float32]) -> None:
    """All operators are onnxruntime's own."""
    node = product(operator="FusedMatMul", domain="com.microsoft")
    save(file, [node], [numpy_helper.from_array(weights, "weights")], opset=("com.microsoft", 1))


def branching(file: Path, weights: NDArray[np.float32]) -> None:
    """Graphs inside a node read its weights, and call the batch size N, as the folded graph does."""
    branches = [
        helper.make_graph(
            [product(name)], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4])]
        )
        for name in ("many", "none")
    ]
    nodes = [
        helper.make_node("ReduceSum", ["cells"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["any"]),
        helper.make_node("If", ["any"], ["policy"], then_branch=branches[0], else_branch=branches[1]),
    ]
    zero = numpy_helper.from_array(np.array(0, np.float32), "zero")
    save(file, nodes, [numpy_helper.from_array(weights, "weights"), zero])


@pytest.mark.parametrize("write", [old, shapeless, foreign, branching])
def test_an_odd_file_is_published_and_answers_as_it_did(
    write: Any, weights: NDArray[np.float32], lessons: Lessons, lessons_file: Path, tmp_path: Path
) -> None:
    write(tmp_path / "odd.onnx", weights)
    assert publish(tmp_path, lessons_file) == 0
    check_moves(tmp_path, weights, lessons.boards[:300])


def damaged(folder: Path, how: str, weights: NDArray[np.float32]) -> None:
    file, constant = folder / "odd.onnx", numpy_helper.from_array(weights, "weights")
    if how == "random":
        noise = helper.make_node("RandomNormalLike", ["sums"], ["noise"])
        save(
            file, [product("sums"), noise, helper.make_node("Add", ["sums", "noise"], ["policy"])], [constant]
        )
    elif how == "infinite":
        grown = [helper.make_node("Exp", ["sums"], ["odds"]), helper.make_node("Exp", ["odds"], ["policy"])]
        save(file, [product("sums"), *grown], [numpy_helper.from_array(weights * 1e3 + 9, "weights")])
    elif how == "small integers":
        cast = helper.make_node("Cast", ["cells"], ["floats"], to=TensorProto.FLOAT)
        save(
            file,
            [cast, helper.make_node("MatMul", ["floats", "weights"], ["policy"])],
            [constant],
            element=TensorProto.INT8,
        )
    elif how == "a folder":
        file.mkdir()
    else:  # a tensor in the attribute of a node
        if how == "not a number":
            constant = numpy_helper.from_array(np.where(weights > 0, np.nan, weights), "weights")
        else:
            constant.ClearField("raw_data")
            constant.data_location = TensorProto.EXTERNAL
            constant.external_data.add(key="location", value="../../etc/passwd")
        save(file, [helper.make_node("Constant", [], ["weights"], value=constant), product()])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("random", "answers the same boards differently each time"),
        ("infinite", "answers boards with numbers that are not finite"),
        ("small integers", "its input 'cells' is of type int8, which is none of float32, "),
        ("a folder", "Is a directory"),
        ("not a number", "'weights' holds weights that are not finite numbers"),
        ("elsewhere", "'weights' lies outside the model's folder, in '../../etc/passwd'"),
    ],
)
def test_a_file_that_cannot_play_is_one_line_and_nothing_is_published(
    how: str,
    message: str,
    weights: NDArray[np.float32],
    lessons_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damaged(tmp_path, how, weights)
    assert publish(tmp_path, lessons_file) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("source", ["--onnx", "--torchscript", "--exported-program"])
def test_an_empty_name_of_a_file_is_one_line(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([source, "", "--name", "odd"]) == 1
    assert capsys.readouterr().err == "octofold-export: .: Is a directory\n"
