"""Graphs with a value head."""

from __future__ import annotations

import numpy as np
import onnx
from octofold_game.contract.graph import BOARDS, VALUE
from onnx import TensorProto, helper, numpy_helper


def valued(graph: bytes, table: np.ndarray, shape: tuple[str | int, ...] = ("N",)) -> bytes:
    """Return a playable graph with `value` as its last output.

    The value of a board is the sum of the table's entries for the exponents of its cells.
    """
    model = onnx.load_from_string(graph)
    model.graph.node.extend(
        [
            helper.make_node("Cast", [BOARDS.name], ["indices"], to=TensorProto.INT32),
            helper.make_node("Gather", ["table", "indices"], ["worths"]),
            helper.make_node("ReduceSum", ["worths", "axis"], [VALUE.name], keepdims=len(shape) - 1),
        ]
    )
    constants = {"table": table, "axis": np.array([1], np.int64)}
    model.graph.initializer.extend(
        numpy_helper.from_array(constant, name) for name, constant in constants.items()
    )
    model.graph.output.append(helper.make_tensor_value_info(VALUE.name, TensorProto.FLOAT, shape))
    return bytes(model.SerializeToString())
