"""Games show how a network reads boards, whichever corner it prefers, or that it plays too weakly."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from octofold_export.checks.description_choice import choose_description
from octofold_export.description.description import ElementType
from octofold_export.description.hints import hints_from_flags
from octofold_export.description.network import NetworkError
from octofold_export.errors import NeedsFlags
from octofold_export.sources.torch_network import TorchNetwork
from octofold_game.contract.model import Evidence
from octofold_game.rules import MOVE_NAMES
from support.lessons import SNAKE_ORDER, one_hot, snake_network
from torch import nn

CORNERS = ("top left", "top right", "bottom left", "bottom right")


def choose(network: Any, weights: int = 60_000, **said: Any) -> tuple[str, Evidence]:
    """Return the description that games choose, as flags, and the evidence for it."""
    flags = {path.replace("__", "."): value for path, value in said.items()}
    hints = hints_from_flags({"answers.kind": "policy_logits", **flags})
    description, evidence = choose_description(hints, network, weights, lambda _: None)
    reads = description.reads
    return f"{reads.layout} {reads.cells} {','.join(description.answers.actions)}", evidence


@pytest.mark.parametrize("corner", CORNERS)
def test_the_order_of_actions_and_cells_is_found_whichever_corner_the_network_prefers(corner: str) -> None:
    found, evidence = choose(TorchNetwork(snake_network(corner), corner))
    assert found == "flat rows up,down,left,right"
    assert (evidence.problem, evidence.warning) == (None, None)
    assert evidence.score > 1.2 * max(evidence.others.values())


class Function:
    """A network that decodes exponents from its input and applies a function."""

    shape = None
    type: ElementType | None = None

    def __init__(
        self,
        answer: Callable[[NDArray[np.uint8]], NDArray[np.float64]],
        exponents: Callable[[NDArray[Any]], NDArray[Any]],
    ) -> None:
        self.answer, self.exponents = answer, exponents

    def run(self, inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        if inputs.shape[1:] != (16,) or inputs.dtype != np.float32:
            raise NetworkError("mat1 and mat2 do not fit")
        exponents = np.rint(self.exponents(inputs)).astype(np.int64) % 18
        return {"output": self.answer(exponents.astype(np.uint8))}

    def operations(self, _inputs: NDArray[Any]) -> int:
        return 1


Policy = Callable[[NDArray[np.uint8]], NDArray[np.float64]]


@pytest.fixture(scope="module")
def policy() -> Policy:
    """A policy with outputs for left, down, up and right."""
    module = snake_network("top left")

    def answer(boards: NDArray[np.uint8]) -> NDArray[np.float64]:
        with torch.no_grad():
            numbers = module(one_hot(boards % 16).flatten(1)).double().numpy()
        by_action: NDArray[np.float64] = numbers[:, [2, 1, 0, 3]]
        return by_action

    return answer


def exponents_of(network_input: str, divide_by: float) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return a function that decodes exponents from the inputs of a network."""

    def exponents(inputs: NDArray[Any]) -> NDArray[Any]:
        numbers = inputs.astype(np.float64) * divide_by
        return np.log2(np.maximum(numbers, 1)) if network_input == "tiles" else numbers

    return exponents


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ({"answers__actions": ("up", "right", "down", "left")}, "--actions up,down,left,right"),
        (
            {"answers__actions": SNAKE_ORDER, "reads__cells": "columns"},
            "--cells columns --answer policy_logits --actions left,right,up,down",
        ),
        ({"answers__actions": SNAKE_ORDER, "reads__layout": "flat_planes"}, "--layout flat "),
        ({"answers__actions": SNAKE_ORDER, "reads__empty_plane": False}, "--planes 16 --answer"),
    ],
    ids=["actions", "cells", "layout", "empty plane"],
)
def test_a_wrong_description_is_refused_with_the_flags_that_publish_the_right_one(
    said: dict[str, Any], right: str
) -> None:
    network = TorchNetwork(snake_network("top left"), "snake")
    with pytest.raises(
        NeedsFlags, match=r"the description seems wrong: with .* points on average, not "
    ) as raised:
        choose(network, **said)
    assert right in raised.value.flags
    assert "--input one_hot" in raised.value.flags


def test_columns_are_found_if_the_user_gives_only_the_actions() -> None:
    """With rows, this order of actions loses; with columns, it fits the network on the transposed board."""
    network = TorchNetwork(snake_network("top left"), "snake")
    found, _ = choose(network, answers__actions=("left", "right", "up", "down"))
    assert found == "flat columns left,right,up,down"


@pytest.mark.parametrize(("kind", "divide_by"), [("exponents", 16), ("tiles", 1)])
def test_a_wrong_kind_of_numbers_is_refused_with_the_right_one(
    kind: str, divide_by: float, policy: Policy
) -> None:
    network = Function(policy, exponents_of(kind, divide_by))
    other = "tiles" if kind == "exponents" else "exponents"
    wrong: dict[str, Any] = {"reads__kind": other, "reads__divide_by": 1.0}
    with pytest.raises(NeedsFlags) as raised:
        choose(network, **wrong)
    assert f"--input {kind} --layout flat --divide-by {divide_by:g} " in raised.value.flags
    assert "--actions left,down,up,right" in raised.value.flags


def test_the_export_asks_for_the_divisor(policy: Policy) -> None:
    network = Function(policy, exponents_of("exponents", 16))
    with pytest.raises(
        NeedsFlags, match=r"an input divided by about 16; confirm it with --divide-by"
    ) as raised:
        choose(network, reads__kind="exponents")
    assert "--divide-by DIVIDE-BY" in raised.value.flags
    assert "--actions left,down,up,right" in raised.value.flags


def test_a_divisor_near_the_best_is_not_refused(policy: Policy) -> None:
    network = Function(policy, exponents_of("exponents", 16))
    found, evidence = choose(network, reads__kind="exponents", reads__divide_by=11.0)
    assert found == "flat rows left,down,up,right"
    assert evidence.problem is None


def nothing_learned(boards: NDArray[np.uint8]) -> NDArray[np.float64]:
    weights = np.random.default_rng(1).normal(size=(256, 4))
    scores: NDArray[np.float64] = np.eye(16)[boards % 16].reshape(len(boards), -1) @ weights
    return scores


def test_a_network_that_has_learned_nothing_is_published_as_described_without_a_warning() -> None:
    network = Function(nothing_learned, exponents_of("exponents", 1))
    said: dict[str, Any] = {"reads__kind": "exponents", "reads__divide_by": 1.0}
    large = 10**7  # plays fewer games
    for actions in (MOVE_NAMES, SNAKE_ORDER):
        _, evidence = choose(network, large, **said, answers__actions=actions)
        assert evidence.problem is None
        assert evidence.warning == "the network plays too weakly to show how it reads the board"
    with pytest.raises(NeedsFlags, match=r"too weakly to show .*: give --actions") as raised:
        choose(network, large, **said)
    assert "--actions ACTIONS" in raised.value.flags
    everything = r"give --input and --actions; .*; change --divide-by if .*; choose one with --answer"
    with pytest.raises(NeedsFlags, match=everything) as raised:
        choose(network, large, answers__kind=None)
    assert raised.value.flags == (
        "--input INPUT --layout flat --divide-by 1 --answer ANSWER --actions ACTIONS"
    )


def test_values_of_the_opposite_sign_are_detected() -> None:
    snake = 4.0 ** -np.array([0, 1, 2, 3, 7, 6, 5, 4, 8, 9, 10, 11, 15, 14, 13, 12])

    def order(boards: NDArray[np.uint8]) -> NDArray[np.float64]:
        values: NDArray[np.float64] = np.where(boards > 0, 2.0**boards, 0) @ snake[:, None]
        return values

    hints = hints_from_flags({"reads.kind": "exponents", "reads.divide_by": 1.0, "answers.scale": 100.0})
    good = Function(order, exponents_of("exponents", 1))
    description, evidence = choose_description(hints, good, 1, lambda _: None)
    assert (description.answers.kind, evidence.problem) == ("afterstate_value", None)
    bad = Function(lambda boards: -order(boards), exponents_of("exponents", 1))
    with pytest.raises(NeedsFlags, match="with small values counted as good") as raised:
        choose_description(hints, bad, 1, lambda _: None)
    assert raised.value.flags == ""


def test_a_large_network_plays_fewer_games_and_says_so() -> None:
    hints = hints_from_flags(
        {"answers.kind": "policy_logits", "answers.actions": MOVE_NAMES, "reads.layout": "flat"}
    )
    _, evidence = choose_description(hints, TorchNetwork(nn.Linear(256, 4), "linear"), 10**9, lambda _: None)
    assert evidence.is_cut_short
