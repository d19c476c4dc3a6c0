"""Judges say what moves are worth: a player in this process, or a model of a server.

Each judge has its own unit: points for an n-tuple network, a probability for a policy network.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from octofold_game.player import Judge as ValuingPlayer
from octofold_game.rules import LARGEST_EXPONENT

from octofold_client.contenders.player_specs import local_player
from octofold_client.contenders.player_thread import BOARDS_AT_ONCE
from octofold_client.contenders.served_model import ServedModel
from octofold_client.errors import EvaluationError
from octofold_client.rpc.client import Client

PROBABILITY = "probability"
_SERVED_BOARDS_AT_ONCE = 1024


@dataclass(frozen=True)
class Opinion:
    """What a judge says of N boards, none of which is over."""

    choices: NDArray[np.int8]
    """`[N]`: its own move."""
    values: NDArray[np.float64]
    """`[N, 4]`: what each move is worth to it; that of an illegal one means nothing."""


@dataclass(frozen=True)
class Judge:
    """Somebody who is asked about positions, `boards_at_once` at a time."""

    name: str
    sha256: str | None
    unit: str
    """What its values are counted in."""
    largest_exponent: int
    boards_at_once: int
    ask: Callable[[NDArray[np.uint8]], Opinion]


def local_judge(spec: str) -> Judge:
    """The player of that spec. Raises `EvaluationError` as `local_player` does, and where it only moves."""
    contender = local_player(spec)
    player = contender.player
    if not isinstance(player, ValuingPlayer):
        raise EvaluationError(f"{contender.title} cannot judge: it does not say what moves are worth")
    return Judge(
        contender.title,
        contender.sha256,
        player.value_unit,
        contender.largest_exponent,
        BOARDS_AT_ONCE,
        partial(_of_player, player),
    )


def served_judge(client: Client, selected: ServedModel) -> Judge:
    """This model version of the server of `client`."""
    return Judge(
        selected.title,
        selected.sha256,
        PROBABILITY,
        selected.largest_exponent or LARGEST_EXPONENT,
        _SERVED_BOARDS_AT_ONCE,
        partial(_of_model, client, selected),
    )


def _of_player(player: ValuingPlayer, boards: NDArray[np.uint8]) -> Opinion:
    values = player.action_values(boards)
    return Opinion(values.argmax(axis=1).astype(np.int8), values)


def _of_model(client: Client, served: ServedModel, boards: NDArray[np.uint8]) -> Opinion:
    answers = client.next_moves(boards, model=served.model, version=served.version.version)
    assert answers.probabilities is not None
    return Opinion(answers.moves, answers.probabilities.astype(np.float64))
