"""Foreign ONNX files are accepted if they can play, and keep their answers."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from octofold_export.checks.folded_graph import FoldedGraph
from octofold_export.checks.reference import measured_spread
from octofold_export.description.hints import hints_from_flags
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import head
from octofold_export.sources.described_network import from_onnx
from octofold_game.rules import legal_moves
from onnx import TensorProto, helper, numpy_helper
from support.lessons import Lessons
from support.linear_onnx import READS, Weights, linear, linear_model, product, publish, save


def check_moves(model: Path, weights: Weights, boards: NDArray[np.uint8]) -> None:
    """Check that the published file plays the largest legal mean of its two views."""

    def shares(seen: NDArray[np.uint8]) -> NDArray[np.float64]:
        sums = np.where(legal_moves(seen), np.eye(16)[seen].reshape(len(seen), -1) @ weights, -np.inf)
        odds = np.exp(sums - sums.max(axis=1, keepdims=True))
        softmax: NDArray[np.float64] = odds / odds.sum(axis=1, keepdims=True)
        return softmax

    half_turn = np.ascontiguousarray(boards[:, ::-1])
    mean = (shares(boards) + shares(half_turn)[:, [2, 3, 0, 1]]) / 2
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    probabilities, moves = session.run(["probabilities", "move"], {"boards": boards})
    np.testing.assert_allclose(probabilities, mean, atol=1e-4)
    assert np.mean(moves == mean.argmax(axis=1)) > 0.99


def old(file: Path, weights: Weights) -> None:
    """Save a file of IR version 3, in which weights are also inputs."""
    also = helper.make_tensor_value_info("weights", TensorProto.FLOAT, weights.shape)
    constant = numpy_helper.from_array(weights, "weights")
    save(file, [product()], [constant], inputs=[also], opset=("", 7), ir_version=3)


def branching(file: Path, weights: Weights) -> None:
    """Save a graph whose subgraphs read its weights and use the name N, like the folded graph, for the batch
    size."""
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


@pytest.mark.parametrize(
    ("write", "flags"),
    [
        *((linear(opset=opset), []) for opset in (9, 21)),
        (linear(batch=5), []),
        (old, READS),
        (branching, READS),
    ],
    ids=[
        "opset 9",
        "opset 21",
        "fixed batch",
        "old",
        "branching",
    ],
)
def test_a_file_of_any_dialect_is_published_and_keeps_its_answers(
    write: Callable[[Path, Weights], None],
    flags: list[str],
    weights: Weights,
    lessons: Lessons,
    lessons_file: Path,
    tmp_path: Path,
) -> None:
    write(tmp_path / "linear.onnx", weights)
    given = {each.domain: each.version for each in onnx.load(tmp_path / "linear.onnx").opset_import}
    assert publish(tmp_path / "linear.onnx", lessons_file, *flags) == 0
    published = tmp_path / "models/linear/1/model.onnx"
    made = {each.domain: each.version for each in onnx.load(published).opset_import}
    assert made[""] == max(given.get("", 0), 18)
    check_moves(published, weights, lessons.boards[:300])


def test_a_network_whose_boards_affect_each_other_is_refused_before_any_game(
    weights: Weights, lessons_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = linear_model(weights, batch=2)
    model.graph.node[-1].output[0] = "policy_of_each"
    model.graph.node.append(helper.make_node("Add", ["policy_of_each", "both"], ["policy"]))
    both = np.arange(8, dtype=np.float32).reshape(2, 4)  # one row for each of the two boards
    model.graph.initializer.append(numpy_helper.from_array(both, "both"))
    onnx.save(model, tmp_path / "linear.onnx")
    assert publish(tmp_path / "linear.onnx", lessons_file) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "octofold-export: the network's answer to a board depends on the other boards of the batch"
    assert not (tmp_path / "models").exists()


Link = Callable[[Path, Path], None]


def keep_as_a_hub(file: Path, link: Link) -> None:
    """Move a file to the store of a model hub, and put a link in its place."""
    stored = file.parent / "blobs" / file.name
    stored.parent.mkdir(exist_ok=True)
    file.replace(stored)
    link(stored, file)


@pytest.mark.parametrize("link", [os.rename, os.symlink], ids=["files", "symbolic links"])
def test_external_tensors_are_read_and_included_in_the_digest(
    link: Link, weights: Weights, lessons: Lessons, lessons_file: Path, tmp_path: Path
) -> None:
    digests: list[str] = []
    for factor in (1, 1.5):
        model = linear_model(weights * np.float32(factor))
        onnx.save(
            model, tmp_path / "linear.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
        )
        for name in ("linear.onnx", "w.bin"):
            keep_as_a_hub(tmp_path / name, link)
        assert publish(tmp_path / "linear.onnx", lessons_file) == 0
        (tmp_path / "linear.onnx").unlink()
        (tmp_path / "w.bin").unlink()
        version = tmp_path / "models/linear" / str(len(digests) + 1)
        check_moves(version / "model.onnx", weights * np.float32(factor), lessons.boards[:300])
        metadata = {entry.key: entry.value for entry in onnx.load(version / "model.onnx").metadata_props}
        digests.append(metadata["octofold.checkpoint_sha256"])
    assert digests[0] != digests[1]


@pytest.mark.parametrize("size", [0.02, 20_000.0])
def test_action_values_of_any_size_decide_every_move(
    size: float, weights: Weights, lessons: Lessons, tmp_path: Path
) -> None:
    boards = lessons.boards[:2_000]
    scaled = weights * np.float32(size / np.ptp(np.eye(16)[boards].reshape(len(boards), -1) @ weights))
    onnx.save(linear_model(scaled), tmp_path / "values.onnx")
    sums = np.eye(16)[boards].reshape(len(boards), -1) @ scaled.astype(np.float64)
    assert np.ptp(sums) <= 1.001 * size
    own = np.where(legal_moves(boards), sums, -np.inf).argmax(axis=1)
    for scale in (1.0, 1000.0):  # converts values to points, and changes no move
        flags = {"answers.kind": "action_values", "answers.scale": scale}
        source = from_onnx(tmp_path / "values.onnx", hints_from_flags(flags))
        spread = measured_spread(source.description, source.evaluate, lessons.boards[2_000:4_000])
        graph = FoldedGraph(fold(head(source.description, source.fp32, spread), "mean", 1))
        assert (graph.next_moves(boards) == own).all()


def test_small_action_values_beside_a_large_one_also_decide(
    weights: Weights, lessons: Lessons, tmp_path: Path
) -> None:
    """An example is a softmax that prefers an illegal move."""
    boards = lessons.boards[:2_000]
    model = linear_model(weights * np.float32(20))
    model.graph.node[-1].output[0] = "logits"
    model.graph.node.append(helper.make_node("Softmax", ["logits"], ["policy"], axis=1))
    onnx.save(model, tmp_path / "shares.onnx")
    source = from_onnx(tmp_path / "shares.onnx", hints_from_flags({"answers.kind": "action_values"}))
    spread = measured_spread(source.description, source.evaluate, lessons.boards[2_000:4_000])
    sums = np.where(legal_moves(boards), source.evaluate(boards), -np.inf)
    ranked = np.sort(sums, axis=1)
    assert np.count_nonzero(ranked[:, 3] - ranked[:, 2] < spread.tie) > 10
    graph = FoldedGraph(fold(head(source.description, source.fp32, spread), "mean", 1))
    assert (graph.next_moves(boards) == sums.argmax(axis=1)).all()


def test_the_views_output_holds_each_views_probabilities_turned_back(
    weights: Weights, lessons: Lessons, lessons_file: Path, tmp_path: Path
) -> None:
    onnx.save(linear_model(weights), tmp_path / "linear.onnx")
    assert publish(tmp_path / "linear.onnx", lessons_file, "--symmetries", "4", "--views-output") == 0
    file = tmp_path / "models/linear/1/model.onnx"
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    boards = np.concatenate([lessons.boards[:100], np.array([[1, 2, 1, 2, 2, 1, 2, 1] * 2], np.uint8)])
    views, probabilities, votes = session.run(["views", "probabilities", "votes"], {"boards": boards})
    assert views.shape == (101, 4, 4)
    np.testing.assert_allclose(views.mean(axis=1), probabilities, atol=1e-6)
    favorites = (views.argmax(axis=2)[..., None] == np.arange(4)).sum(axis=1)
    assert (favorites[:100] == votes[:100]).mean() > 0.99
    assert (views[100] == 0).all()
    rotated = boards.reshape(-1, 4, 4).swapaxes(1, 2)[:, ::-1].reshape(-1, 16)  # one of the four views
    (turned,) = session.run(["probabilities"], {"boards": np.ascontiguousarray(rotated)})
    np.testing.assert_allclose(np.sort(turned), np.sort(probabilities), atol=1e-5)
