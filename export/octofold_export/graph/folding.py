"""Puts the pieces together: one ONNX graph from raw boards to legal moves.

    boards [N, 16] --cast--> cells --head--> scores [N, V, 4] --mask--> --merge--> --decide--> move [N]
                               `--------------legality--> legal [N, 4] ---^

The head lays the evaluator's answers out move by move; the evaluator encodes the views and runs the network's
body. The same assembly serves every network, rule and precision.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto
from onnx.helper import make_tensor_value_info

from octofold_export.graph.builder import GraphBuilder
from octofold_export.graph.decision import Rule, decide, mask
from octofold_export.graph.heads import Head
from octofold_export.graph.legality import legality
from octofold_export.graph.views import VIEWS


def fold(head: Head, rule: Rule, symmetries: int, *, with_views: bool = False) -> onnx.ModelProto:
    """The graph that answers boards `[N, 16] uint8` of exponents, for any N.

    Outputs: `move` `[N] int8` (-1: no legal move), `probabilities` `[N, 4] float32` (0 for illegal moves,
    sums to 1, or to 0 when the game is over), `votes` `[N, 4] uint8`, `legal` `[N, 4] bool`; `with_views`
    adds `views` `[N, V, 4] float32`, the probabilities of each view for the board's own moves. `symmetries`
    is the number of views, a key of `views.VIEWS`.
    """
    graph = GraphBuilder()
    cells = graph.add("Cast", ["boards"], "cells", to=TensorProto.INT32)
    legal = legality(graph, cells)
    scores = mask(graph, head.scores(graph, cells, VIEWS[symmetries]), legal)
    merged = head.merge(graph, scores, with_views=with_views)
    decide(graph, scores, merged, legal, rule)
    outputs = [
        make_tensor_value_info("move", TensorProto.INT8, ["N"]),
        make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 4]),
        make_tensor_value_info("votes", TensorProto.UINT8, ["N", 4]),
        make_tensor_value_info("legal", TensorProto.BOOL, ["N", 4]),
    ]
    if with_views:
        outputs.append(make_tensor_value_info("views", TensorProto.FLOAT, ["N", symmetries, 4]))
    return graph.model(
        inputs=[make_tensor_value_info("boards", TensorProto.UINT8, ["N", 16])],
        outputs=outputs,
        name="octofold",
    )
