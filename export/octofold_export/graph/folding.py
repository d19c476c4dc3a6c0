"""Assembles the folded graph: one ONNX graph from raw boards to legal moves.

    boards [N, 16] --cast--> cells --head--> scores [N, V, 4] --mask--> --merge--> --decide--> move [N]
                               `--------------legality--> legal [N, 4] ---^

The head turns the network's outputs for V views of a board into a score of each move on each view. The mask
lowers the scores of illegal moves. The merge combines the views. The decision counts their votes and breaks
ties. All networks, rules and precisions share this assembly.
"""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray
from octofold_game.contract import graph as contract
from octofold_game.contract.graph import LEGAL, MOVE, PROBABILITIES, VOTES
from octofold_game.contract.model import Rule
from octofold_game.symmetries import VIEWS
from onnx import TensorProto
from onnx.helper import make_tensor_value_info, np_dtype_to_tensor_dtype

from octofold_export.graph.builder import GraphBuilder
from octofold_export.graph.encoded_body import VIEW_VALUES
from octofold_export.graph.heads import Head, MergedScores

_ILLEGAL = np.float32(-1e30)  # low enough for probability 0, and finite, so that a finished game gives no NaN


def fold(
    head: Head,
    rule: Rule,
    symmetries: int,
    *,
    with_views: bool = False,
    value_scale: float | None = None,
) -> onnx.ModelProto:
    """Make the graph that answers boards `[N, 16] uint8` of exponents, for any N.

    `octofold_game.contract.graph` defines the outputs. `with_views` adds the output `views`.
    `value_scale` adds the output `value` of a network with a value head, multiplied by `value_scale`.
    `symmetries` is the number of views, a key of `VIEWS`.
    """
    graph = GraphBuilder()
    cells = graph.add("Cast", [contract.BOARDS.name], "cells", to=TensorProto.INT32)
    legal = legality(graph, cells)
    scores = mask_illegal(graph, head.scores(graph, cells, VIEWS[symmetries]), legal)
    merged = head.merge_views(graph, scores, with_views=with_views)
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
    """Return the ONNX declaration of a tensor of the contract, for `symmetries` views."""
    shape: list[int | str | None] = ["N", *(symmetries if size < 0 else size for size in tensor.shape)]
    return make_tensor_value_info(tensor.name, np_dtype_to_tensor_dtype(tensor.dtype), shape)


def legality(graph: GraphBuilder, cells: str) -> str:
    """Compute `legal` `[N, 4] bool` for `[N, 16] int32` exponents.

    A move is legal if and only if some tile has, in the direction of the move, a next cell that is empty or
    contains an equal tile.
    """
    targets, sources = _steps()
    into = graph.add("Gather", [cells, graph.constant("step_targets", targets)], "into", axis=1)
    moved = graph.add("Gather", [cells, graph.constant("step_sources", sources)], "moved", axis=1)
    empty = graph.constant("empty", np.array(0, np.int32))
    slides = graph.add("Equal", [into, empty], "slides")
    merges = graph.add("Equal", [into, moved], "merges")
    gives_way = graph.add("Or", [slides, merges], "gives_way")
    tile = graph.add("Greater", [moved, empty], "tile")
    steps = graph.add("And", [tile, gives_way], "steps")
    return graph.any(steps, 2, LEGAL.name)


def _steps() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for each move, the cells that tiles enter and the cells that they leave.

    Both results are `[4, 12]`, because a move can slide tiles between twelve pairs of neighboring cells.
    """
    board = np.arange(16).reshape(4, 4)
    up, left = (board[:-1].ravel(), board[1:].ravel()), (board[:, :-1].ravel(), board[:, 1:].ravel())
    pairs = np.array([up, left[::-1], up[::-1], left], np.int64)  # up, right, down, left
    return pairs[:, 0], pairs[:, 1]


def mask_illegal(graph: GraphBuilder, scores: str, legal: str) -> str:
    """Replace the scores `[N, V, 4]` of illegal moves, where `legal` `[N, 4]` is false, by -1e30."""
    legal_views = graph.add("Unsqueeze", [legal, graph.integers(1)], "legal_views")
    illegal = graph.constant("illegal_score", np.array(_ILLEGAL))
    return graph.add("Where", [legal_views, scores, illegal], "legal_scores")


def decide(graph: GraphBuilder, scores: str, merged: MergedScores, legal: str, rule: Rule) -> str:
    """Add the graph's outputs; return the output with the moves `[N] int8`.

    `scores` are the masked scores `[N, V, 4]`, `merged` is their combination, and `legal` is `[N, 4]`. Rule
    `vote` plays the move with the most votes, and breaks ties by the merged score. Rule `mean` plays the move
    with the largest merged score.
    """
    zero_if_illegal = graph.add("Cast", [legal], "legal_float", to=TensorProto.FLOAT)
    graph.add("Mul", [merged.probabilities, zero_if_illegal], PROBABILITIES.name)
    if merged.views is not None:
        every_view = graph.add("Unsqueeze", [zero_if_illegal, graph.integers(1)], "legal_float_views")
        graph.add("Mul", [merged.views, every_view], contract.VIEWS.name)

    votes = _count_votes(graph, scores, zero_if_illegal)
    graph.add("Cast", [votes], VOTES.name, to=TensorProto.UINT8)

    best = _break_ties(graph, votes if rule == "vote" else None, merged)
    running = graph.any(legal, 1, "running")
    over = graph.constant("over", np.array(-1))
    played = graph.add("Where", [running, best, over], "played")
    return graph.add("Cast", [played], MOVE.name, to=TensorProto.INT8)


def _count_votes(graph: GraphBuilder, scores: str, zero_if_illegal: str) -> str:
    """Count the votes `[N, 4] float32` for each move: each view votes for its best legal move."""
    favorite = graph.add("ArgMax", [scores], "favourite", axis=2, keepdims=1)  # [N, V, 1]
    moves = graph.constant("moves", np.arange(4))
    ballots = graph.add("Equal", [favorite, moves], "ballots")
    ballots_float = graph.add("Cast", [ballots], "ballots_float", to=TensorProto.FLOAT)
    counted = graph.add("ReduceSum", [ballots_float, graph.integers(1)], "counted", keepdims=0)
    return graph.add("Mul", [counted, zero_if_illegal], "valid_votes")


def _break_ties(graph: GraphBuilder, votes: str | None, merged: MergedScores) -> str:
    """Choose the move `[N]` with the largest merged score.

    If `votes` `[N, 4]` are given, only moves with the most votes are compared. A move whose score is within
    the tie of the largest score counts as best; the first best move of up, right, down, left is chosen.
    """
    scores = merged.scores
    if votes is not None:
        most = graph.add("ReduceMax", [votes, graph.integers(1)], "most_votes", keepdims=1)
        leads = graph.add("Equal", [votes, most], "leads")
        loser = graph.constant("loser", np.array(-np.inf, np.float32))
        scores = graph.add("Where", [leads, scores, loser], "leaders_worth")
    largest = graph.add("ReduceMax", [scores, graph.integers(1)], "largest_worth", keepdims=1)
    tie = graph.constant("tie", np.array(merged.tie, np.float32))
    if merged.max_tie_share is not None:
        share = graph.constant("max_tie_share", np.array(merged.max_tie_share, np.float32))
        best = graph.add("Mul", [graph.add("Abs", [largest], "size_of_best"), share], "tie_of_this_best")
        tie = graph.add("Min", [tie, best], "smaller_tie")
    worse = graph.add("Greater", [largest, graph.add("Add", [scores, tie], "worth_at_most")], "worse")
    no, yes = (graph.constant(name, np.array(name == "yes", np.float32)) for name in ("no", "yes"))
    as_good = graph.add("Where", [worse, no, yes], "as_good")
    return graph.add("ArgMax", [as_good], "best", axis=1, keepdims=0)
