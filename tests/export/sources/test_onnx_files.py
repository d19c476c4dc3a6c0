"""ONNX files from anywhere: which are taken, and that they answer as they did."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from octofold_export.cli import main
from octofold_game.rules import legal_moves
from support.lessons import Lessons
from support.linear_onnx import linear_model, linear_weights

FAST = ["--precisions", "fp32", "--symmetries", "1", "--answer", "policy_logits"]


@pytest.fixture(scope="module")
def weights(lessons: Lessons) -> NDArray[np.float32]:
    return linear_weights(lessons)


def publish(file: Path, boards: Path, *more: str) -> int:
    repository = str(file.parent / "models")
    arguments = ["--onnx", str(file), "--name", "linear", "--models", repository, "--boards", str(boards)]
    return main([*arguments, *more])


def check_moves(model: Path, weights: NDArray[np.float32], boards: NDArray[np.uint8]) -> None:
    """The published file plays the largest legal one of the four sums."""
    sums = np.eye(16)[boards].reshape(len(boards), -1) @ weights
    expected = np.where(legal_moves(boards), sums, -np.inf).argmax(axis=1)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (moves,) = session.run(["move"], {"boards": boards})
    assert np.mean(moves == expected) > 0.999


@pytest.mark.parametrize("opset", [9, 13, 18, 21])
def test_any_opset_is_taken(
    opset: int, weights: NDArray[np.float32], lessons: Lessons, lessons_file: Path, tmp_path: Path
) -> None:
    onnx.save(linear_model(weights, opset=opset), tmp_path / "linear.onnx")
    assert publish(tmp_path / "linear.onnx", lessons_file, *FAST) == 0
    published = tmp_path / "models/linear/1/model.onnx"
    assert onnx.load(published).opset_import[0].version == max(opset, 18)
    check_moves(published, weights, lessons.boards[:300])


def test_a_fixed_batch_is_made_free(
    weights: NDArray[np.float32], lessons: Lessons, lessons_file: Path, tmp_path: Path
) -> None:
    onnx.save(linear_model(weights, batch=5), tmp_path / "linear.onnx")
    assert publish(tmp_path / "linear.onnx", lessons_file, *FAST) == 0
    check_moves(tmp_path / "models/linear/1/model.onnx", weights, lessons.boards[:300])


def test_a_batch_that_cannot_be_freed_is_refused_by_name(
    weights: NDArray[np.float32], lessons_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = linear_model(weights, batch=2)
    size = onnx.helper.make_node("Expand", ["policy_of_one", "both"], ["policy"])
    model.graph.node[-1].output[0] = "policy_of_one"
    model.graph.node.append(size)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2, 4]), "both"))
    onnx.save(model, tmp_path / "linear.onnx")
    assert publish(tmp_path / "linear.onnx", lessons_file, *FAST) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "works for a fixed batch size only" in line
    assert not (tmp_path / "models").exists()


def test_tensors_in_a_file_beside_the_model_are_read_and_count_for_its_digest(
    weights: NDArray[np.float32], lessons: Lessons, lessons_file: Path, tmp_path: Path
) -> None:
    digests: list[str] = []
    for sign in (1, 1.5):
        model = linear_model(weights * np.float32(sign))
        onnx.save(
            model, tmp_path / "linear.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
        )
        assert publish(tmp_path / "linear.onnx", lessons_file, *FAST) == 0
        (tmp_path / "w.bin").unlink()
        version = tmp_path / "models/linear" / str(len(digests) + 1)
        check_moves(version / "model.onnx", weights, lessons.boards[:300])
        metadata = {entry.key: entry.value for entry in onnx.load(version / "model.onnx").metadata_props}
        digests.append(metadata["octofold.checkpoint_sha256"])
    assert digests[0] != digests[1]


def test_of_several_outputs_the_named_one_is_used(
    weights: NDArray[np.float32], lessons_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(linear_model(weights, outputs=("policy", "other")), tmp_path / "linear.onnx")
    assert publish(tmp_path / "linear.onnx", lessons_file, *FAST) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "2 outputs ('policy' [N, 4], 'other' [N, 4]); name one with --output" in line
    assert publish(tmp_path / "linear.onnx", lessons_file, *FAST, "--output", "other") == 0


def test_the_views_output_holds_each_views_probabilities_turned_back(
    weights: NDArray[np.float32], lessons: Lessons, lessons_file: Path, tmp_path: Path
) -> None:
    onnx.save(linear_model(weights), tmp_path / "linear.onnx")
    flags = ["--precisions", "fp32", "--symmetries", "4", "--answer", "policy_logits", "--views-output"]
    assert publish(tmp_path / "linear.onnx", lessons_file, *flags) == 0
    file = tmp_path / "models/linear/1/model.onnx"
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    boards = np.concatenate([lessons.boards[:100], np.array([[1, 2, 1, 2, 2, 1, 2, 1] * 2], np.uint8)])
    views, probabilities, votes = session.run(["views", "probabilities", "votes"], {"boards": boards})
    assert views.shape == (101, 4, 4)
    np.testing.assert_allclose(views.mean(axis=1), probabilities, atol=1e-6)
    favorites = (views.argmax(axis=2)[..., None] == np.arange(4)).sum(axis=1)
    assert (favorites[:100] == votes[:100]).mean() > 0.99
    assert (views[100] == 0).all()
    rotated = boards.reshape(-1, 4, 4).swapaxes(1, 2)[:, ::-1].reshape(-1, 16)  # by one of the four views
    (turned,) = session.run(["probabilities"], {"boards": np.ascontiguousarray(rotated)})
    np.testing.assert_allclose(np.sort(turned), np.sort(probabilities), atol=1e-5)


@pytest.mark.parametrize(
    ("change", "flags", "message"),
    [
        ({"operator": "MatMulOfTheFuture"}, [], "onnxruntime cannot load it"),
        ({"extra_input": True}, [], "2 inputs ('cells', 'temperature')"),
        ({}, ["--layout", "channels_first", "--input", "one_hot"], "[N, 4, 4, 16] float32"),
        ({}, ["--planes", "12"], "the network takes no input that fits planes 12"),
        ({}, ["--output", "value"], "has no output 'value'; it has 'policy' [N, 4]"),
        ({}, ["--answer", "afterstate_value", "--scale", "1"], "afterstate_value is 1 numbers a board"),
        ({}, ["--answer", "action_values"], "need --scale"),
        ({}, ["--answer", "policy_probabilities"], "holds no probabilities"),
        ({}, ["--largest-exponent", "16"], "largest_exponent is 16, allowed are 2 to 15"),
        ({}, ["--divide-by", "2", "--input", "one_hot"], "divide_by is for numbers"),
        ({}, ["--actions", "up,up,down,left"], "each of up, right, down, left is needed once"),
        ({}, ["--description", "absent.toml"], "absent.toml: No such file"),
    ],
    ids=str,
)
def test_what_contradicts_the_graph_is_one_line_and_nothing_is_published(
    change: dict[str, Any],
    flags: list[str],
    message: str,
    weights: NDArray[np.float32],
    lessons_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    onnx.save(linear_model(weights, **change), tmp_path / "linear.onnx")
    assert publish(tmp_path / "linear.onnx", lessons_file, *FAST, *flags) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("octofold-export: ")
    assert message in line
    assert not (tmp_path / "models").exists()


def damaged(file: Path, how: str, weights: NDArray[np.float32]) -> None:
    if how == "3 GB":
        with file.open("wb") as opened:
            opened.truncate(3 << 30)  # takes no room on the disk
    elif how == "no model":
        file.write_bytes(b"this is no model")
    elif how == "not a number":
        broken = weights.copy()
        broken[3, 1] = np.nan
        onnx.save(linear_model(broken), file)
    elif how == "elsewhere":
        model = linear_model(weights)
        onnx.save(model, file, save_as_external_data=True, location="w.bin", size_threshold=0)
        text = file.read_bytes()
        file.write_bytes(text.replace(b"w.bin", b"../ab"))
    elif how == "lost":
        onnx.save(linear_model(weights), file, save_as_external_data=True, location="w.bin", size_threshold=0)
        (file.parent / "w.bin").unlink()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("absent", "No such file"),
        ("3 GB", "3.2 GB of weights; a model file holds less than 2 GiB"),
        ("no model", "not an ONNX file"),
        ("not a number", "'weights' holds weights that are not finite numbers"),
        ("elsewhere", "lies outside the model's folder, in '../ab'"),
        ("lost", "w.bin: No such file"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line_and_nothing_is_published(
    how: str,
    message: str,
    weights: NDArray[np.float32],
    lessons_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damaged(tmp_path / "linear.onnx", how, weights)
    assert publish(tmp_path / "linear.onnx", lessons_file, *FAST) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("octofold-export: ")
    assert message in line
    assert not (tmp_path / "models").exists()
