"""Makes the graph for moves alone: its only output is `move`, so it needs less arithmetic.

The graph plays like the full graph, and lacks the nodes of other outputs. If eight views vote, five equal
votes decide. Therefore the graph runs five views of every board, and the other three views only of undecided
boards:

    boards --5 views--> scores --all votes equal?--> move
                          `--undecided--3 views--> scores --decision--> move

For undecided boards, all eight views vote as in the full graph. Boards with one legal move are not treated
separately, because they are only 1 in 8,000 boards. The graph is published without weights, because it uses
the weights of the full graph.
"""

from __future__ import annotations

import onnx
from octofold_game.contract.graph import BOARDS, MOVE, UNPACKED_TABLES
from octofold_game.contract.model import Rule
from octofold_game.symmetries import VIEWS
from onnx import TensorProto

from octofold_export.graph.builder import GraphBuilder, keep_outputs, replace_all
from octofold_export.graph.folding import decide, legality, mask_illegal, value_info
from octofold_export.graph.heads import Head

_VOTERS = 8
_ENOUGH = 5
"""Number of equal votes that decide the move: more than half of the views."""


def moves_graph(head: Head, rule: Rule, symmetries: int, full: onnx.ModelProto) -> onnx.ModelProto | None:
    """Make the graph with the single output `move`, without the initializers that the `full` graph has.

    Returns None if it would save little, because `full` has neither a vote of eight views nor packed tables.
    """
    in_stages = rule == "vote" and symmetries == _VOTERS
    if not in_stages and not any(UNPACKED_TABLES in node.output for node in full.graph.node):
        return None
    graph = GraphBuilder(full.graph.initializer)
    cells = graph.add("Cast", [BOARDS.name], "cells", to=TensorProto.INT32)
    legal = legality(graph, cells)
    if in_stages:
        _vote_in_stages(graph, head, cells, legal)
    else:
        scores = mask_illegal(graph, head.scores(graph, cells, VIEWS[symmetries]), legal)
        decide(graph, scores, head.merge_views(graph, scores, with_views=False), legal, rule)
    model = graph.model([value_info(BOARDS, symmetries)], [value_info(MOVE, symmetries)], "octofold")
    shared = {tensor.name for tensor in full.graph.initializer}
    own = [tensor for tensor in model.graph.initializer if tensor.name not in shared]
    replace_all(model.graph.initializer, own)
    keep_outputs(model.graph, model.graph.output)
    return model


def with_weights(moves_only: onnx.ModelProto, full: onnx.ModelProto) -> onnx.ModelProto:
    """Return the graph for moves alone with the initializers of the `full` graph, as a server runs it."""
    complete = onnx.ModelProto()
    complete.CopyFrom(moves_only)
    complete.graph.initializer.extend(full.graph.initializer)
    return complete


def _vote_in_stages(graph: GraphBuilder, head: Head, cells: str, legal: str) -> None:
    axis = graph.integers(1)
    with graph.scope("first"):
        first = mask_illegal(graph, head.scores(graph, cells, VIEWS[_VOTERS][:_ENOUGH]), legal)
        favorites = graph.add("ArgMax", [first], "favorites", axis=2, keepdims=0)
        most = graph.add("ReduceMax", [favorites, axis], "most", keepdims=0)
        least = graph.add("ReduceMin", [favorites, axis], "least", keepdims=0)
        places = graph.add("NonZero", [graph.add("Less", [least, most], "differ")], "places")
        undecided = graph.add("Reshape", [places, graph.integers(-1)], "undecided")
    with graph.scope("last"):
        known_cells, known_legal, known = (
            graph.add("Gather", [rows, undecided], name, axis=0)
            for rows, name in ((cells, "cells"), (legal, "legal_moves"), (first, "first_scores"))
        )
        last = mask_illegal(graph, head.scores(graph, known_cells, VIEWS[_VOTERS][_ENOUGH:]), known_legal)
        scores = graph.add("Concat", [known, last], "all_scores", axis=1)
        merged = head.merge_views(graph, scores, with_views=False)
        decided = decide(graph, scores, merged, known_legal, "vote")
        moves = graph.add("Cast", [decided], "decided", to=TensorProto.INT64)
    votes = graph.add("ScatterElements", [most, undecided, moves], "votes_of_all", axis=0)
    running = graph.any(legal, 1, "any_legal")
    over = graph.add("Where", [running, votes, graph.integers(-1)], "played_by_all")
    graph.add("Cast", [over], MOVE.name, to=TensorProto.INT8)
