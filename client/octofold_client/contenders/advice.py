"""Advice on single boards, by local players and served models."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from octofold_game.player import ValuingPlayer

from octofold_client.contenders.judges import PROBABILITY
from octofold_client.contenders.local_players import local_player
from octofold_client.contenders.served_model import ServedModel
from octofold_client.errors import OctofoldError
from octofold_client.rpc.client import Client


@dataclass(frozen=True)
class Advice:
    """An adviser's opinion of one board."""

    adviser: str
    choice: int
    """The move that the adviser would make, 0 to 3; -1 if the game is over."""
    values: NDArray[np.float64] | None
    """`[4]`: the value of each move; undefined for illegal moves. None without values."""
    unit: str
    """Unit of the values, such as `probability` or `points`."""
    votes: NDArray[np.uint8] | None
    """`[4]`: number of symmetric views of the board that voted for each move; None without views."""

    @property
    def has_probabilities(self) -> bool:
        """Whether the values are probabilities."""
        return self.unit == PROBABILITY


AdviceOrError = Advice | str | None
"""Advice, or the message of an error if there is no advice, or None without an adviser."""


@dataclass(frozen=True)
class Adviser:
    """A player or model that gives advice on boards. It caches advice, and returns errors as text."""

    advise: Callable[[NDArray[np.uint8]], Advice]
    """Function that returns the advice on a board `[16]`, or raises `OctofoldError`."""
    _known: dict[bytes, Advice] = field(default_factory=dict, init=False)

    def __call__(self, board: NDArray[np.uint8]) -> AdviceOrError:
        """Return the advice on a board `[16]`, or the message of the error."""
        key = board.tobytes()
        try:
            if key not in self._known:
                self._known[key] = self.advise(board)
        except OctofoldError as error:
            return str(error)
        return self._known[key]


def served_adviser(client: Client, served: ServedModel) -> Adviser:
    """Make an adviser of a served model version."""

    def advise(board: NDArray[np.uint8]) -> Advice:
        answer = client.next_move(board, model=served.model, version=served.version.version)
        if not served.is_player:
            values = answer.probabilities.astype(np.float64)
            votes = answer.votes if served.votes_decide else None
            return Advice(served.title, answer.move, values, PROBABILITY, votes)
        has_values = answer.values is not None and np.isfinite(answer.values).any()
        worth = answer.values.astype(np.float64) if answer.values is not None and has_values else None
        return Advice(served.title, answer.move, worth, served.value_unit, None)

    return Adviser(advise)


def local_adviser(spec: str) -> Adviser:
    """Make an adviser of the local player of a spec.

    Raises:
        EvaluationError: the player is unknown.
    """
    contender = local_player(spec)
    player = contender.player

    def advise(board: NDArray[np.uint8]) -> Advice:
        choice = int(player.next_moves(board[None])[0])  # may differ from the move with the largest value
        if not isinstance(player, ValuingPlayer):
            return Advice(contender.title, choice, None, "", None)
        return Advice(contender.title, choice, player.action_values(board[None])[0], player.value_unit, None)

    return Adviser(advise)
