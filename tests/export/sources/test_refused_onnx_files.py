"""ONNX files that cannot play are refused with a reason, and nothing is published."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.linear_onnx import READS, Weights, linear, linear_model, product, publish, save


def huge(file: Path, _: Weights) -> None:
    with file.open("wb") as opened:
        opened.truncate(3 << 30)  # a sparse file, which uses no disk space


def no_model(file: Path, _: Weights) -> None:
    file.write_bytes(b"this is no model")


def a_folder(file: Path, _: Weights) -> None:
    file.mkdir()


def not_a_number(file: Path, weights: Weights) -> None:
    onnx.save(linear_model(np.where(weights > 0, np.nan, weights)), file)


def elsewhere(file: Path, weights: Weights) -> None:
    beside(file, weights)
    file.write_bytes(file.read_bytes().replace(b"w.bin", b"../ab"))


def lost(file: Path, weights: Weights) -> None:
    beside(file, weights)
    (file.parent / "w.bin").unlink()


def beside(file: Path, weights: Weights) -> None:
    """Save the weights in the file `w.bin`."""
    model = linear_model(weights)
    onnx.save(model, file, save_as_external_data=True, location="w.bin", size_threshold=0)


def beside_a_pipe(file: Path, weights: Weights) -> None:
    lost(file, weights)
    os.mkfifo(file.parent / "w.bin")


def beside_too_much(file: Path, weights: Weights) -> None:
    beside(file, weights)
    os.truncate(file.parent / "w.bin", 3 << 30)


def random(file: Path, weights: Weights) -> None:
    noise = helper.make_node("RandomNormalLike", ["sums"], ["noise"])
    nodes = [product("sums"), noise, helper.make_node("Add", ["sums", "noise"], ["policy"])]
    save(file, nodes, [numpy_helper.from_array(weights, "weights")])


def elsewhere_in_a_node(file: Path, weights: Weights) -> None:
    constant = numpy_helper.from_array(weights, "weights")
    constant.ClearField("raw_data")
    constant.data_location = TensorProto.EXTERNAL
    constant.external_data.add(key="location", value="../../etc/passwd")
    save(file, [helper.make_node("Constant", [], ["weights"], value=constant), product()])


@pytest.mark.parametrize(
    ("write", "flags", "message"),
    [
        (huge, [], "the weights must take at most 2,130,706,432 bytes, got 3,221,225,472"),
        (no_model, [], "not an ONNX file"),
        (a_folder, [], "a folder; docs/export.md has the command that converts a SavedModel"),
        (not_a_number, [], "the constant 'weights' contains NaN"),
        (elsewhere, [], "must be in the model's folder, got '../ab'"),
        (beside_a_pipe, [], "w.bin: it is not a regular file"),
        (beside_too_much, [], "w.bin: it has more than 2130706432 bytes"),
        (random, READS, "answers the same boards differently"),
        (elsewhere_in_a_node, READS, "'weights' must be in the model's folder, got '../../etc/passwd'"),
        (linear(extra_input=True), [], "got 2 ('cells', 'temperature')"),
        (linear(), ["--layout", "channels_first", "--input", "one_hot"], "[N, 4, 4, 16] float32"),
        (linear(), ["--output", "value"], "has no output 'value'; it has 'policy' [N, 4]"),
        (
            linear(),
            ["--answer", "afterstate_value", "--scale", "1"],
            "must have the shape [N, 1] for afterstate_value",
        ),
        (linear(), ["--largest-exponent", "16"], "largest_exponent must be 2 to 15, got 16"),
        (
            linear(),
            ["--actions", "up,up,down,left"],
            "actions must contain each of up, right, down, left once",
        ),
    ],
)
def test_an_unusable_file_gives_a_one_line_error_and_nothing_is_published(
    write: Callable[[Path, Weights], None],
    flags: list[str],
    message: str,
    weights: Weights,
    lessons_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(tmp_path / "linear.onnx", weights)
    assert publish(tmp_path / "linear.onnx", lessons_file, *flags) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("octofold-export: ")
    assert message in line
    assert not (tmp_path / "models").exists()
