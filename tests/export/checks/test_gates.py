"""The checks before publishing find errors and name them."""

import re

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from octofold_export.checks.calibration_and_comparison_boards import random_boards
from octofold_export.checks.folded_graph import FoldedGraph
from octofold_export.checks.gates import check_agreement, check_equivariance, parity_boards, plays_alike
from octofold_export.checks.reference import Reference, network_evaluation, plain_head, reference_answers
from octofold_export.description.description import Answers, Description, Reads
from octofold_export.errors import GateError
from octofold_export.graph.encoded_body import EncodedBody
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import head
from octofold_export.handmade.layers import float32_network
from octofold_export.handmade.weights import NetworkWeights
from octofold_export.sources.octofold_checkpoint import one_hot_description
from octofold_export.sources.torch_network import TorchNetwork
from octofold_game.contract.model import Rule
from support.one_kind import of_one_kind
from torch import nn

POLICY = one_hot_description(16)


@pytest.fixture(scope="module")
def checked(boards: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A part of the boards that an export checks."""
    return parity_boards(boards, 15)[::3]


def reference_of(module: nn.Module, boards: NDArray[np.uint8], rule: Rule, symmetries: int) -> Reference:
    description = one_hot_description(16)
    evaluate = network_evaluation(TorchNetwork(module, "small"), description)
    return reference_answers(plain_head(description, evaluate), boards, rule, symmetries)


class UpTo16(nn.Linear):
    """A layer whose output is not a number for the exponent 17."""

    def forward(self, exponents: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.log(16.5 - exponents))


def test_answers_that_are_not_numbers_are_found_at_every_stage() -> None:
    reads = Reads(kind="exponents", layout="flat")
    answers = Answers(kind="action_values", scale=1)
    description = Description(reads=reads, answers=answers, largest_exponent=17)
    body = TorchNetwork(UpTo16(16, 4), "exponents").body(["output"], np.zeros((3, 16), np.float32))
    graph = FoldedGraph(fold(head(description, EncodedBody(body, description)), "mean", 8))
    late = np.array([[17, 16, 1, 2] + [0] * 12], np.uint8)
    early = np.minimum(late, 3)
    with pytest.raises(GateError, match=r"answers are not finite on 1 of 1 boards \(late\), first on \[17"):
        check_agreement("int8", graph, graph, early, {"early": early, "late": late}, by_vote=False)


@of_one_kind
def test_the_equivariance_check_refuses_a_player_that_sees_only_one_view(
    module: nn.Module, network: NetworkWeights, checked: NDArray[np.uint8]
) -> None:
    reference = reference_of(module, checked, "vote", 1)
    graph = FoldedGraph(fold(head(POLICY, float32_network(network)), "vote", 1))
    with pytest.raises(GateError, match="equivariance under symmetry 1: probabilities differ"):
        check_equivariance(graph, reference)


def test_a_graph_for_moves_alone_that_makes_other_moves_is_refused(
    small_graphs: tuple[bytes, bytes], boards: NDArray[np.uint8]
) -> None:
    whole, alone = map(onnx.load_model_from_string, small_graphs)
    assert plays_alike(whole, alone, boards)
    (best,) = (node for node in alone.graph.node if node.output[0] == "last/best")
    best.op_type = "ArgMin"
    assert not plays_alike(whole, alone, boards)


class Changed:
    """A player that plays like a graph, but makes no move on some boards."""

    def __init__(self, graph: FoldedGraph, boards: NDArray[np.uint8]) -> None:
        self._graph, self._changed = graph, boards

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        changed = (boards[:, None] == self._changed).all(axis=2).any(axis=1)
        return np.where(changed, np.int8(-1), self._graph.next_moves(boards))


@of_one_kind
def test_agreement_is_the_share_of_equal_moves_and_must_be_99_percent(
    network: NetworkWeights, boards: NDArray[np.uint8]
) -> None:
    graph = FoldedGraph(fold(head(POLICY, float32_network(network)), "vote", 8))
    boards = boards[:200]
    stages = {"first": boards[:20], "random": random_boards(15, seed=1)}

    def agreement(changed: int, by_vote: bool = False) -> tuple[float, list[float]]:
        exact = Changed(graph, boards[:changed])
        share, by_stage = check_agreement("int8", graph, exact, boards, stages, by_vote=by_vote)
        assert [stage.boards for stage in by_stage.values()] == [20, len(stages["random"])]
        return share, [stage.agreement for stage in by_stage.values()]

    assert agreement(0) == (1.0, [1.0, 1.0])
    assert agreement(2) == (0.99, [0.9, 1.0])
    message = re.escape("int8 keeps 98.50% of the 200 moves of fp32; it must keep at least 99%")
    with pytest.raises(GateError, match=f"{message}$"):
        agreement(3)
    with pytest.raises(GateError, match=f"{message}; --rule mean usually keeps more moves than a vote$"):
        agreement(3, by_vote=True)
