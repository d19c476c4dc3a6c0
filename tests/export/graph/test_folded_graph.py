"""The float32 graph agrees with the rules and with a naive numpy player that shares no code with it."""

import re
from collections.abc import Callable
from functools import cache
from itertools import combinations, product

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from octofold_export.checks.folded_graph import FoldedGraph, Outputs
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import head
from octofold_export.handmade.layers import LayersEvaluator, float16_network, float32_network
from octofold_export.handmade.weights import NetworkWeights
from octofold_export.sources.octofold_checkpoint import one_hot_description
from octofold_game.contract.model import Rule
from octofold_game.rules import legal_moves, slide
from octofold_training.networks.pair_network import PairNetwork
from support.one_kind import of_one_kind
from torch import nn

FINISHED = np.array([[1, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1, 2, 2, 1, 2, 1]], np.uint8)
CLOSE = 1e-4  # rounding may decide smaller margins

SQUARES = list(product(range(3), range(3)))
Square = NDArray[np.uint8]
View = Callable[[Square], Square]

POLICY = one_hot_description(16)


def view(turns: int, *, mirrored: bool = False) -> View:
    return lambda square: np.rot90(square[:, ::-1] if mirrored else square, turns)


PLAYERS = [("vote", 8), ("mean", 8), ("vote", 4), ("mean", 2), ("vote", 1)]
SEEN: dict[int, list[View]] = {
    8: [view(turns, mirrored=mirrored) for turns, mirrored in product(range(4), (False, True))],
    4: [view(turns) for turns in range(4)],
    2: [view(0), view(2)],
    1: [view(0)],
}


@pytest.fixture(scope="module", params=PLAYERS, ids=str)
def player(request: pytest.FixtureRequest, network: NetworkWeights) -> tuple[FoldedGraph, Rule, int]:
    rule, symmetries = request.param
    return (
        FoldedGraph(fold(head(POLICY, float32_network(network)), rule, symmetries)),
        rule,
        symmetries,
    )


@pytest.fixture(scope="module")
def graph(network: NetworkWeights) -> FoldedGraph:
    return FoldedGraph(fold(head(POLICY, float32_network(network)), "vote", 8))


def naive_logits(module: nn.Module, square: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the logits `[4]` of one 4x4 view, computed in loops over cells."""
    weights = {name: value.double().numpy() for name, value in module.state_dict().items()}
    if isinstance(module, PairNetwork):
        flat = naive_features(module, square, weights)
    else:
        flat = naive_planes(square, weights).transpose(2, 0, 1).ravel()  # channel by channel
    *hidden, output = [name.removesuffix(".weight") for name in weights if re.match("dense.*weight", name)]
    for layer in hidden:
        flat = np.maximum(weights[f"{layer}.weight"] @ flat + weights[f"{layer}.bias"], 0)
    return np.asarray(weights[f"{output}.weight"] @ flat + weights[f"{output}.bias"])


def naive_planes(square: NDArray[np.uint8], weights: dict[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the output `[rows, columns, channels]` of the convolutions."""
    planes = np.eye(16)[square]
    kernels = [weights[name] for name in weights if name.startswith("conv") and name.endswith("weight")]
    for depth, kernel in enumerate(kernels):
        seen = np.pad(planes, ((0, 1), (0, 1), (0, 0)))
        planes = np.empty((4, 4, len(kernel)))
        for row, column in product(range(4), range(4)):
            window = seen[row : row + 2, column : column + 2]
            planes[row, column] = np.einsum("oiyx,yxi->o", kernel, window)
        planes = np.maximum(planes + weights[f"convolutions.{depth}.bias"], 0)
    return planes


def naive_features(
    module: PairNetwork, square: NDArray[np.uint8], weights: dict[str, NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return the features of rows, columns and squares, one line or square after the other."""
    places = {
        "lines": [*square, *square.T],
        "squares": [square[row : row + 2, column : column + 2].ravel() for row, column in SQUARES],
    }
    found = []
    for number, pattern in enumerate(module.patterns):
        by_pair = weights[f"tables.{number}"].reshape(6, 16, 16, -1)
        for cells in places[pattern]:
            pairs = enumerate(combinations(cells, 2))
            found.append(np.sum([by_pair[pair, first, second] for pair, (first, second) in pairs], axis=0))
    features: NDArray[np.float64] = np.maximum(np.concatenate(found), 0)
    return features


@cache
def names_of_moves(view: View) -> list[int]:
    """Return the number of each move on the view: the move that slides the view to the view of the result."""
    square = np.zeros((4, 4), np.uint8)
    square[1, 1:3], square[2, 2] = (1, 2), 3
    results = [view(slide(square.reshape(1, 16), [move])[0].reshape(4, 4)) for move in range(4)]
    turned = [slide(view(square).reshape(1, 16), [move])[0].reshape(4, 4) for move in range(4)]
    return [next(m for m in range(4) if (turned[m] == result).all()) for result in results]


def naive_answer(
    module: nn.Module, board: NDArray[np.uint8], rule: Rule, symmetries: int
) -> tuple[int, NDArray[np.float64], NDArray[np.int64], float]:
    """Return move, probabilities, votes, and the smallest margin of any decision."""
    legal = legal_moves(board[None])[0]
    votes, total, margins = np.zeros(4, int), np.zeros(4), [np.inf]

    def lead(scores: NDArray[np.float64]) -> float:
        best = np.sort(scores[legal])[::-1]
        return float(best[0] - best[1]) if len(best) > 1 else np.inf

    for view in SEEN[symmetries]:
        logits = naive_logits(module, view(board.reshape(4, 4)))[names_of_moves(view)]
        odds = np.where(legal, np.exp(logits - logits[legal].max(initial=-np.inf)), 0)
        if legal.any():
            odds /= odds.sum()
            votes[odds.argmax()] += 1
            margins.append(lead(odds))
        total += odds / symmetries
    if not legal.any():
        return -1, total, votes, np.inf
    leaders = votes == votes.max() if rule == "vote" else np.ones(4, bool)
    score = np.where(leaders, total, -1)
    margins.append(lead(score))
    return int(score.argmax()), total, votes, min(margins)


@pytest.mark.parametrize("size", [1, 31])
def test_the_graph_answers_like_a_naive_player_at_any_batch_size(
    player: tuple[FoldedGraph, Rule, int], module: nn.Module, boards: NDArray[np.uint8], size: int
) -> None:
    graph, rule, symmetries = player
    asked = np.concatenate([boards[: size - 1], FINISHED])
    answers = graph.answer(asked, batch=size)
    clear = 0
    for at, board in enumerate(asked):
        move, probabilities, votes, margin = naive_answer(module, board, rule, symmetries)
        np.testing.assert_allclose(answers.probabilities[at], probabilities, atol=1e-5)
        if margin > CLOSE:
            clear += 1
            assert answers.move[at] == move
            assert answers.votes[at].tolist() == votes.tolist()
    assert clear > 0.9 * size


CUDA_KERNELS = {
    *("Add", "And", "ArgMax", "Cast", "Concat", "Div", "Equal", "Gather", "Gemm", "Greater", "Min", "Mul"),
    *("Or", "ReduceMax", "ReduceMean", "ReduceSum", "Relu", "Reshape", "Slice", "Softmax"),
    *("Unsqueeze", "Where"),
}
"""Operators of opset 18 that onnxruntime runs on a GPU in the types of these graphs."""


@pytest.mark.parametrize("form", [float32_network, float16_network])
def test_every_operator_of_the_graphs_for_gpus_has_a_cuda_kernel(
    network: NetworkWeights, form: Callable[[NetworkWeights], LayersEvaluator]
) -> None:
    """Otherwise, onnxruntime cannot record a CUDA graph."""
    graph = fold(head(POLICY, form(network)), "vote", 8).graph
    assert {node.op_type for node in graph.node} <= CUDA_KERNELS


def test_outputs_have_the_promised_names_types_and_shapes(network: NetworkWeights) -> None:
    graph = fold(head(POLICY, float32_network(network)), "vote", 8).graph
    described = {
        value.name: (
            onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name,
            [size.dim_param or size.dim_value for size in value.type.tensor_type.shape.dim],
        )
        for value in [*graph.input, *graph.output]
    }
    assert described == {
        "boards": ("uint8", ["N", 16]),
        "move": ("int8", ["N"]),
        "probabilities": ("float32", ["N", 4]),
        "votes": ("uint8", ["N", 4]),
        "legal": ("bool", ["N", 4]),
    }


crowded_boards = st.lists(st.sampled_from([0, 1, 1, 2, 2, 3, 15, 17]), min_size=16, max_size=16)
full_boards = st.lists(st.integers(1, 4), min_size=16, max_size=16)


@of_one_kind
@settings(max_examples=40, deadline=None)
@given(st.lists(crowded_boards | full_boards, min_size=1, max_size=64))
def test_legal_moves_are_those_of_the_rules(graph: FoldedGraph, boards: list[list[int]]) -> None:
    asked = np.array(boards, np.uint8)
    check_rules_are_kept(asked, graph.answer(asked))


def check_rules_are_kept(boards: NDArray[np.uint8], answers: Outputs) -> None:
    legal = legal_moves(boards)
    running = legal.any(axis=1)
    assert (answers.legal == legal).all()
    assert (answers.probabilities[~legal] == 0).all()
    assert (answers.votes[~legal] == 0).all()
    np.testing.assert_allclose(answers.probabilities.sum(axis=1), running, atol=1e-6)
    assert (answers.move[~running] == -1).all()
    assert legal[np.flatnonzero(running), answers.move[running]].all()


def test_a_symmetric_board_gets_the_same_answer_in_every_batch(
    graph: FoldedGraph, boards: NDArray[np.uint8]
) -> None:
    square = boards.reshape(-1, 4, 4)
    symmetric = np.ascontiguousarray(np.maximum(square, square[:, :, ::-1])[:64].reshape(-1, 16))
    alone = graph.answer(symmetric, batch=1)
    together = graph.answer(symmetric, batch=64)
    assert alone.move.tolist() == together.move.tolist()


def test_boards_with_exponents_unknown_to_the_network_get_legal_moves(graph: FoldedGraph) -> None:
    asked = np.random.default_rng(7).integers(0, 256, (64, 16)).astype(np.uint8)
    asked[:, ::3] = 0  # room to move
    asked[0] = 255
    answers = graph.answer(asked)
    assert answers.legal[np.arange(64), answers.move].all()
    np.testing.assert_allclose(answers.probabilities.sum(axis=1), 1, atol=1e-6)


def test_an_empty_batch_gives_empty_outputs(graph: FoldedGraph) -> None:
    answers = graph.answer(np.empty((0, 16), np.uint8))
    assert answers.move.shape == (0,)
    assert answers.probabilities.shape == (0, 4)
