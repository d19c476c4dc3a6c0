"""Puts the pieces together: one ONNX graph from raw boards to legal moves.

The same assembly serves every head and every precision.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto
from onnx.helper import make_tensor_value_info

from octofold_export.graph.builder import GraphBuilder
from octofold_export.graph.decision import Rule, decide, mask
from octofold_export.graph.heads import Head
from octofold_export.graph.legality import legality


def fold(head: Head, rule: Rule, symmetries: int) -> onnx.ModelProto:
    """The graph that answers boards `[N, 16] uint8` of exponents, for any N.

    Outputs: `move` `[N] int8` (-1: no legal move), `probabilities` `[N, 4] float32` (0 for illegal moves,
    sums to 1, or to 0 when the game is over), `votes` `[N, 4] uint8`, `legal` `[N, 4] bool`. `symmetries` is
    8, or 1 for a player that sees the board as it is.
    """
    graph = GraphBuilder()
    cells = graph.add("Cast", ["boards"], "cells", to=TensorProto.INT32)
    legal = legality(graph, cells)
    scores = mask(graph, head.scores(graph, cells, symmetries), legal)
    probabilities, worth = head.merge(graph, scores)
    decide(graph, scores, probabilities, worth, legal, rule)
    return graph.model(
        inputs=[make_tensor_value_info("boards", TensorProto.UINT8, ["N", 16])],
        outputs=[
            make_tensor_value_info("move", TensorProto.INT8, ["N"]),
            make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 4]),
            make_tensor_value_info("votes", TensorProto.UINT8, ["N", 4]),
            make_tensor_value_info("legal", TensorProto.BOOL, ["N", 4]),
        ],
        name="octofold",
    )
