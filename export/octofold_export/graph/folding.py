"""Assembles the pieces into one ONNX graph from raw boards to legal moves.

    boards [N, 16] --cast--> cells --head--> scores [N, V, 4] --mask--> --merge--> --decide--> move [N]
                               `--------------legality--> legal [N, 4] ---^

The evaluator encodes the views and runs the network's body. The head arranges its answers by move. All
networks, rules and precisions share this assembly.
"""

from __future__ import annotations

import numpy as np
import onnx
from octofold_game.contract import graph as contract
from octofold_game.contract.model import Rule
from octofold_game.symmetries import VIEWS
from onnx import TensorProto
from onnx.helper import make_tensor_value_info, np_dtype_to_tensor_dtype

from octofold_export.graph.bodies import VIEW_VALUES
from octofold_export.graph.builder import GraphBuilder
from octofold_export.graph.decision import decide, legality, mask
from octofold_export.graph.heads import Head


def fold(
    head: Head,
    rule: Rule,
    symmetries: int,
    *,
    with_views: bool = False,
    value_scale: float | None = None,
) -> onnx.ModelProto:
    """Make the graph that answers boards `[N, 16] uint8` of exponents, for any N.

    The outputs are those of `octofold_game.contract.graph`. `with_views` adds `views`, and `value_scale` adds
    `value`, multiplied by it, which needs a network with a value head. `symmetries` is the number of views, a
    key of `VIEWS`.
    """
    graph = GraphBuilder()
    cells = graph.add("Cast", [contract.BOARDS.name], "cells", to=TensorProto.INT32)
    legal = legality(graph, cells)
    scores = mask(graph, head.scores(graph, cells, VIEWS[symmetries]), legal)
    merged = head.merge(graph, scores, with_views=with_views)
    decide(graph, scores, merged, legal, rule)
    tensors = [*contract.OUTPUTS, *[contract.VIEWS] * with_views]
    if value_scale is not None:
        by_board = graph.add("Reshape", [VIEW_VALUES, graph.integers(-1, symmetries)], "values_of_views")
        mean = graph.add("ReduceMean", [by_board, graph.integers(1)], "mean_value", keepdims=0)
        scale = graph.constant("value_scale", np.array(value_scale, np.float32))
        graph.add("Mul", [mean, scale], contract.VALUE.name)
        tensors.append(contract.VALUE)
    outputs = [value_info(tensor, symmetries) for tensor in tensors]
    return graph.model(inputs=[value_info(contract.BOARDS, symmetries)], outputs=outputs, name="octofold")


def value_info(tensor: contract.Tensor, symmetries: int) -> onnx.ValueInfoProto:
    """The ONNX description of a tensor of the contract, for a number of views."""
    shape: list[int | str | None] = ["N", *(symmetries if size < 0 else size for size in tensor.shape)]
    return make_tensor_value_info(tensor.name, np_dtype_to_tensor_dtype(tensor.dtype), shape)
