"""Graphs with a value head."""

from __future__ import annotations

import numpy as np
import onnx
from octofold_game.contract.model import VALUE
from onnx import TensorProto, helper, numpy_helper


def valued(graph: bytes, table: np.ndarray, shape: tuple[str | int, ...] = ("N",)) -> bytes:
    """The small graph of the server's tests with the output `value` behind the others.

    The value of a board is the sum over its cells of what the table says of their exponents.
    """
    model = onnx.load_from_string(graph)
    model.graph.node.append(helper.make_node("Gather", ["table", "numbers"], ["worths"]))
    model.graph.node.append(
        helper.make_node("ReduceSum", ["worths", "cells"], [VALUE.name], keepdims=len(shape) - 1)
    )
    model.graph.initializer.append(numpy_helper.from_array(table, "table"))
    model.graph.output.append(helper.make_tensor_value_info(VALUE.name, TensorProto.FLOAT, shape))
    return bytes(model.SerializeToString())
