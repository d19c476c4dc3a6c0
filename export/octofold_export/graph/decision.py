"""How the scores of the views become one move, votes and probabilities: the last piece of a folded graph."""

from __future__ import annotations

from typing import Literal

import numpy as np
from onnx import TensorProto

from octofold_export.graph.builder import GraphBuilder

Rule = Literal["vote", "mean"]
"""How the answers of the views become one move, see `decide`."""

_ILLEGAL = np.float32(-1e30)  # probability exactly 0, and no NaN where no move is legal


def mask(graph: GraphBuilder, scores: str, legal: str) -> str:
    """Scores `[N, S, 4]` of moves, hugely negative where `legal` `[N, 4]` is false."""
    legal_views = graph.add("Unsqueeze", [legal, graph.integers(1)], "legal_views")
    illegal = graph.constant("illegal_score", np.array(_ILLEGAL))
    return graph.add("Where", [legal_views, scores, illegal], "legal_scores")


def decide(graph: GraphBuilder, scores: str, probabilities: str, worth: str, legal: str, rule: Rule) -> None:
    """Masked scores `[N, S, 4]`, what a head merged them to, and `legal` `[N, 4]`, to the outputs move,
    probabilities and votes.

    `votes` counts the views whose best legal move it is. Rule `vote` plays the move of most votes, of several
    such the one of larger worth; `mean` plays the largest worth. Moves of equal worth go to the first of up,
    right, down, left.
    """
    zero_if_illegal = graph.add("Cast", [legal], "legal_float", to=TensorProto.FLOAT)
    probabilities = graph.add("Mul", [probabilities, zero_if_illegal], "probabilities")

    favourite = graph.add("ArgMax", [scores], "favourite", axis=2, keepdims=1)  # [N, S, 1]
    moves = graph.constant("moves", np.arange(4))
    ballots = graph.add("Equal", [favourite, moves], "ballots")
    ballots_float = graph.add("Cast", [ballots], "ballots_float", to=TensorProto.FLOAT)
    counted = graph.add("ReduceSum", [ballots_float, graph.integers(1)], "counted", keepdims=0)
    valid = graph.add("Mul", [counted, zero_if_illegal], "valid_votes")
    graph.add("Cast", [valid], "votes", to=TensorProto.UINT8)

    if rule == "vote":
        most = graph.add("ReduceMax", [valid, graph.integers(1)], "most_votes", keepdims=1)
        leads = graph.add("Equal", [valid, most], "leads")
        loser = graph.constant("loser", np.array(-np.inf, np.float32))
        worth = graph.add("Where", [leads, worth, loser], "leaders_worth")
    best = graph.add("ArgMax", [worth], "best", axis=1, keepdims=0)
    running = graph.any(legal, 1, "running")
    over = graph.constant("over", np.array(-1))
    played = graph.add("Where", [running, best, over], "played")
    graph.add("Cast", [played], "move", to=TensorProto.INT8)
