"""The pieces of a folded graph: encode, network over all views, legality, decide.

    boards [N, 16] --encode--> [N, 16, E] --network--> logits [N * S, 4] --decide--> moves [N]
       `-----------------------legality--> [N, 4] --------------------------^

S symmetric views of a board ride in the batch, so every layer is a few large matrix products. The arithmetic
of those products (float32, or integers between quantised layers) is the layers' own; the pieces here only
lay cells out. Nothing here knows torch, files or calibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from octofold_game.symmetries import CELLS, MOVES
from onnx import TensorProto

from octofold_export.builder import GraphBuilder
from octofold_export.geometry import PLACE, REGIONS, Region

Rule = Literal["vote", "mean"]
"""How the answers of the views become one move, see `decide`."""

_ILLEGAL = np.float32(-1e30)  # as a logit: probability exactly 0, and no NaN where no move is legal
_TIE_SCALE = np.array(1 << 16, np.float32)
_EXPONENT_CODES = 256  # all of uint8: a board that the network was not made for must not crash the runtime


class ConvolutionLayer(Protocol):
    """A 2x2 convolution with ReLU in some number format, applied to rows of neighbouring cells."""

    @property
    def inputs(self) -> int: ...

    @property
    def outputs(self) -> int: ...

    def multiply(self, graph: GraphBuilder, rows: str, region: Region, name: str) -> str:
        """`[M, region.taps * inputs]` to `[M, outputs]`."""
        ...


class DenseLayer(Protocol):
    """The last layer in some number format."""

    @property
    def inputs(self) -> int: ...

    def multiply(self, graph: GraphBuilder, rows: str, name: str) -> str:
        """`[M, inputs]` to logits `[M, 4] float32`."""
        ...


def encode(graph: GraphBuilder, cells: str, codes: NDArray[Any]) -> str:
    """`[N, 16]` exponents to `[N, 16, E]`: for each cell its row of `codes` `[exponents, E]`.

    A lookup gives exactly the numbers in `codes`, in their own type. An exponent above the largest reads as
    the largest.
    """
    table = codes[np.minimum(np.arange(_EXPONENT_CODES), len(codes) - 1)]
    return graph.add("Gather", [graph.constant("codes", table), cells], "encoded", axis=0)


def network(
    graph: GraphBuilder,
    encoded: str,
    convolutions: Sequence[ConvolutionLayer],
    dense: DenseLayer,
    symmetries: int,
) -> str:
    """`[N, 16, E]` to the logits `[N * symmetries, 4]` of every view, in the view's own directions.

    The views cost nothing: the first layer reads the cells of every view out of the one encoded board.
    """
    activations = encoded
    for depth, layer in enumerate(convolutions):
        parts = []
        for region in REGIONS:
            name = f"conv{depth}_{region.name}"
            sources = CELLS[:symmetries][:, region.sources()] if depth == 0 else PLACE[region.sources()]
            index = graph.constant(f"{name}_sources", sources.astype(np.int64))
            neighbours = graph.add("Gather", [activations, index], f"{name}_neighbours", axis=1)
            width = graph.integers(-1, region.taps * layer.inputs)
            rows = graph.add("Reshape", [neighbours, width], f"{name}_rows")
            product = layer.multiply(graph, rows, region, f"{name}_product")
            shape = graph.integers(-1, len(region.cells), layer.outputs)
            parts.append(graph.add("Reshape", [product, shape], name))
        activations = graph.add("Concat", parts, f"conv{depth}", axis=1)
    rows = graph.add("Reshape", [activations, graph.integers(-1, dense.inputs)], "dense_rows")
    return dense.multiply(graph, rows, "view_logits")


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
    return graph.add("ReduceMax", [steps, graph.integers(2)], "legal", keepdims=0)


def decide(graph: GraphBuilder, logits: str, legal: str, rule: Rule, symmetries: int) -> None:
    """Logits `[N * symmetries, 4]` and `legal` `[N, 4]` to the outputs move, probabilities and votes.

    Under both rules `probabilities` is the mean over the views of their softmax over the legal moves, and
    `votes` counts the views whose likeliest legal move it is. Rule `vote` plays the move of most votes, of
    several such the one with the larger probability; `mean` plays the largest probability. Probabilities
    within 2**-16 are equal here and go to the first of up, right, down, left: on a symmetric board two moves
    are worth the same, and the batch that a board happens to ride in must not choose between them.
    """
    turned_back = np.arange(symmetries)[:, None] * 4 + MOVES[:symmetries]  # [S, 4]: original move -> logit
    by_board = graph.add("Reshape", [logits, graph.integers(-1, symmetries * 4)], "board_logits")
    index = graph.constant("turned_back", turned_back.astype(np.int64))
    by_view = graph.add("Gather", [by_board, index], "original_logits", axis=1)  # [N, S, 4]
    legal_views = graph.add("Unsqueeze", [legal, graph.integers(1)], "legal_views")
    illegal = graph.constant("illegal_logit", np.array(_ILLEGAL))
    masked = graph.add("Where", [legal_views, by_view, illegal], "masked_logits")

    zero_if_illegal = graph.add("Cast", [legal], "legal_float", to=TensorProto.FLOAT)
    softmax = graph.add("Softmax", [masked], "view_probabilities", axis=2)
    mean = graph.add("ReduceMean", [softmax, graph.integers(1)], "mean_probabilities", keepdims=0)
    probabilities = graph.add("Mul", [mean, zero_if_illegal], "probabilities")

    favourite = graph.add("ArgMax", [masked], "favourite", axis=2, keepdims=1)  # [N, S, 1]
    moves = graph.constant("moves", np.arange(4))
    ballots = graph.add("Equal", [favourite, moves], "ballots")
    ballots_float = graph.add("Cast", [ballots], "ballots_float", to=TensorProto.FLOAT)
    counted = graph.add("ReduceSum", [ballots_float, graph.integers(1)], "counted", keepdims=0)
    valid = graph.add("Mul", [counted, zero_if_illegal], "valid_votes")
    graph.add("Cast", [valid], "votes", to=TensorProto.UINT8)

    scaled = graph.add("Mul", [probabilities, graph.constant("tie_scale", _TIE_SCALE)], "scaled")
    score = graph.add("Round", [scaled], "rounded")
    if rule == "vote":
        most = graph.add("ReduceMax", [valid, graph.integers(1)], "most_votes", keepdims=1)
        leads = graph.add("Equal", [valid, most], "leads")
        loser = graph.constant("loser", np.array(-1, np.float32))
        score = graph.add("Where", [leads, score, loser], "score")
    best = graph.add("ArgMax", [score], "best", axis=1, keepdims=0)
    running = graph.add("ReduceMax", [legal, graph.integers(1)], "running", keepdims=0)
    over = graph.constant("over", np.array(-1))
    played = graph.add("Where", [running, best, over], "played")
    graph.add("Cast", [played], "move", to=TensorProto.INT8)


def _steps() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`[4, 12]` each: per move, the cells that tiles step into and the cells that they step from."""
    board = np.arange(16).reshape(4, 4)
    up, left = (board[:-1].ravel(), board[1:].ravel()), (board[:, :-1].ravel(), board[:, 1:].ravel())
    pairs = np.array([up, left[::-1], up[::-1], left], np.int64)  # up, right, down, left
    return pairs[:, 0], pairs[:, 1]
