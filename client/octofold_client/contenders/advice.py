"""Advice on single boards, by local players and served models."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from octofold_game.player import Judge as ValuingPlayer

from octofold_client.contenders.judges import PROBABILITY
from octofold_client.contenders.player_specs import local_player
from octofold_client.contenders.served_model import ServedModel
from octofold_client.rpc.client import Client


@dataclass(frozen=True)
class Advice:
    """What an adviser thinks of one board."""

    adviser: str
    choice: int
    """The move that the adviser would make, 0 to 3; -1 if the game is over."""
    values: NDArray[np.float64] | None
    """`[4]`: the value of each move; arbitrary for illegal moves. None if the adviser values no moves."""
    unit: str
    """Unit of the values, such as `probability` or `points`."""
    votes: NDArray[np.uint8] | None
    """`[4]`: number of symmetric views of the board that voted for each move; None without views."""

    @property
    def shares(self) -> bool:
        """Whether the values are probabilities."""
        return self.unit == PROBABILITY


Adviser = Callable[[NDArray[np.uint8]], Advice]
"""Gives advice on a board `[16]`; raises `OctofoldError` or `BoardError`."""


def served_adviser(client: Client, served: ServedModel) -> Adviser:
    """A served model version, as an adviser."""

    def advise(board: NDArray[np.uint8]) -> Advice:
        answer = client.next_move(board, model=served.model, version=served.version.version)
        values = answer.probabilities.astype(np.float64)
        return Advice(served.title, answer.move, values, PROBABILITY, answer.votes)

    return advise


def local_adviser(spec: str) -> Adviser:
    """The local player of a spec, as an adviser.

    Raises:
        EvaluationError: the player is unknown.
    """
    contender = local_player(spec)
    player = contender.player

    def advise(board: NDArray[np.uint8]) -> Advice:
        if not isinstance(player, ValuingPlayer):
            return Advice(contender.title, int(player.next_moves(board[None])[0]), None, "", None)
        values = player.action_values(board[None])[0]
        choice = int(values.argmax()) if np.isfinite(values).any() else -1
        return Advice(contender.title, choice, values, player.value_unit, None)

    return advise
