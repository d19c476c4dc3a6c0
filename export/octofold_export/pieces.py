"""The pieces of a folded graph: encode, network over all views, legality, decide.

    boards [N, 16] --encode--> [N, 16, E] --network--> [N * S, 1, 4] --head--> [N, S, 4] --decide--> moves [N]
       `-----------------------legality--> [N, 4] -----------------------------------------^

S symmetric views of a board ride in the batch, so every layer is a few large matrix products. The arithmetic
of those products (float32, or integers between quantised layers) is the layers' own; the pieces here only
lay cells out. Nothing here knows torch, files or calibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from octofold_export.builder import GraphBuilder
from octofold_export.geometry import LayerShape

Rule = Literal["vote", "mean"]
"""How the answers of the views become one move, see `decide`."""

_ILLEGAL = np.float32(-1e30)  # probability exactly 0, and no NaN where no move is legal


class FoldedLayer(Protocol):
    """A layer in some number format."""

    @property
    def shape(self) -> LayerShape: ...

    def multiply(self, graph: GraphBuilder, rows: str, first: int, end: int, name: str) -> str:
        """`[M, end - first]` by rows `first:end` of the weights: `[M, shape.outputs]`, in the type that the
        next layer takes.
        """
        ...


def network(graph: GraphBuilder, encoded: str, layers: Sequence[FoldedLayer], views: NDArray[np.intp]) -> str:
    """`[N, P, E]` to the outputs of the last layer for every view: `[N * S, 1, outputs]`.

    Row s of `views` `[S, P]` says where the places of view s lie in `encoded`. The views cost nothing: the
    first layer reads the places of every view out of the one encoded board.
    """
    activations, places = encoded, views
    for layer in layers:
        shape, parts = layer.shape, []
        for region in shape.regions:
            name = f"{shape.name}_{region.name}"
            rows = activations
            if not np.array_equal(region.sources.ravel(), places):  # else it takes everything as it lies
                index = graph.constant(f"{name}_sources", places[..., region.sources].astype(np.int64))
                rows = graph.add("Gather", [activations, index], f"{name}_neighbours", axis=1)
            width = graph.integers(-1, region.taps * shape.inputs)
            rows = graph.add("Reshape", [rows, width], f"{name}_rows")
            first, end = region.first_tap * shape.inputs, region.end_tap * shape.inputs
            product = layer.multiply(graph, rows, first, end, f"{name}_product")
            by_view = graph.integers(-1, region.cells, shape.outputs)
            parts.append(graph.add("Reshape", [product, by_view], name))
        activations = parts[0] if len(parts) == 1 else graph.add("Concat", parts, shape.name, axis=1)
        places = np.arange(sum(region.cells for region in shape.regions))
    return activations


def legality(graph: GraphBuilder, cells: str) -> str:
    """`[N, 16] int32` exponents to `legal` `[N, 4] bool`.

    A move changes the board if and only if some cell along it holds a tile whose next cell is empty or holds
    its equal.
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
    return graph.any(steps, 2, "legal")


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


def _steps() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`[4, 12]` each: per move, the cells that tiles step into and the cells that they step from."""
    board = np.arange(16).reshape(4, 4)
    up, left = (board[:-1].ravel(), board[1:].ravel()), (board[:, :-1].ravel(), board[:, 1:].ravel())
    pairs = np.array([up, left[::-1], up[::-1], left], np.int64)  # up, right, down, left
    return pairs[:, 0], pairs[:, 1]
