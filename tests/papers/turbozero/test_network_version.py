"""A published network that a player asks in its own process: what it refuses, each time in one line."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from octofold_papers.turbozero.network_version import NetworkVersion
from octofold_players.local_player import OptionError
from onnx import TensorProto, helper


def graph(*outputs: str) -> bytes:
    """It answers 4 probabilities and a value of 3 for each board."""
    nodes = [
        helper.make_node("Cast", ["boards"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Slice", ["numbers", "zero", "four", "axis"], ["probabilities"]),
        helper.make_node("ReduceMax", ["numbers"], ["value"], axes=[1], keepdims=0),
    ]
    shapes: dict[str, list[str | int]] = {"probabilities": ["N", 4], "value": ["N"]}
    whole = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("boards", TensorProto.UINT8, ["N", 16])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in outputs],
        [
            helper.make_tensor(name, TensorProto.INT64, [1], [number])
            for name, number in (("zero", 0), ("four", 4), ("axis", 1))
        ],
    )
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


def version(folder: Path, model: bytes, **listed: Any) -> Path:
    (folder / "model.onnx").write_bytes(model)
    file = {"file": "model.onnx", "sha256": hashlib.sha256(model).hexdigest(), **listed}
    card = {"format": 1, "name": "net", "version": 1, "largest_exponent": 15, "value_unit": "moves"}
    (folder / "card.json").write_text(json.dumps({**card, "precisions": {"fp32": file}}))
    return folder


WHOLE = graph("probabilities", "value")


def test_a_network_version_answers_the_outputs_that_rollouts_ask_for_and_no_other(tmp_path: Path) -> None:
    network = NetworkVersion(version(tmp_path, WHOLE))
    (tmp_path / "model.onnx").write_bytes(b"another")  # the bytes that were checked are those that answer
    boards = np.arange(6 * 16, dtype=np.uint8).reshape(6, 16) % 13
    for count in (0, 1, 6):
        assert np.array_equal(network("probabilities", boards[:count]), boards[:count, :4])
        assert np.array_equal(network("value", boards[:count]), boards[:count].max(axis=1, initial=0))
    with pytest.raises(OptionError, match="is not asked for 'values', only for probabilities and value"):
        network("values", boards)


@pytest.mark.parametrize(
    ("model", "listed", "why"),
    [
        (graph("probabilities"), {}, "model.onnx has no output 'value' as card.json promises it"),
        (b"damaged" * 9, {}, "onnxruntime cannot load .*/model.onnx: .*"),
        (WHOLE, {"sha256": "0" * 64}, "model.onnx does not match card.json"),
        (WHOLE, {"file": "gone.onnx"}, "gone.onnx cannot be read: No such file or directory"),
        (
            WHOLE,
            {"tensors": {"table": {"file": "table.bin", "sha256": "0" * 64}}},
            "model.onnx has tensors in other files: only a server reads those",
        ),
    ],
)
def test_a_version_that_cannot_be_asked_is_refused_at_once_in_one_line(
    tmp_path: Path, model: bytes, listed: dict[str, Any], why: str
) -> None:
    with pytest.raises(OptionError, match=why) as refusal:
        NetworkVersion(version(tmp_path, model, **listed))
    assert str(tmp_path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_tensors_that_no_card_lists_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.load_from_string(WHOLE)
    model.graph.initializer[1].ClearField("int64_data")
    model.graph.initializer[1].data_location = TensorProto.EXTERNAL
    model.graph.initializer[1].external_data.add(key="location", value="four.bin")
    (tmp_path / "four.bin").write_bytes(np.array([4], np.int64).tobytes())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="onnxruntime cannot load"):
        NetworkVersion(version(tmp_path, bytes(model.SerializeToString())))


def test_without_onnxruntime_the_command_that_installs_it_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(OptionError, match=r"a published network needs onnxruntime: run .* install"):
        NetworkVersion(version(tmp_path, WHOLE))
