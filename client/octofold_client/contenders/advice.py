"""Advice on single boards, by local players and served models."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from octofold_game.player import ValuingPlayer
from octofold_game.rules import legal_moves

from octofold_client.contenders.judges import COSTLY, PROBABILITY, served_judge
from octofold_client.contenders.local_players import local_player
from octofold_client.contenders.served_model import ServedModel
from octofold_client.errors import OctofoldError
from octofold_client.rpc.client import Client

_SERVED_BOARDS, _LOCAL_BOARDS = 256, 8


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


Thought = Advice | str | None
"""Advice, the message of an error, or None if nobody is asked."""


@dataclass(frozen=True)
class Adviser:
    """A player or model that is asked about boards: once about each, and with texts in place of errors."""

    advise: Callable[[NDArray[np.uint8]], Advice]
    """Advice on a board `[16]`; raises `OctofoldError`, as the other two functions do."""
    choose: Callable[[NDArray[np.uint8]], NDArray[np.int64]]
    """The choices `[N]` for boards `[N, 16]`, -1 if the game is over."""
    boards_at_once: int
    """Boards that are worth one question; a search takes its time for each."""
    worth: Callable[[NDArray[np.uint8]], NDArray[np.float64]] | None = None
    """The values `[N, 4]` of the moves of boards `[N, 16]`; None without values that make up a cost."""
    unit: str = ""
    """Unit of `worth`, a key of `COSTLY`."""
    _known: dict[bytes, Advice] = field(default_factory=dict, init=False)

    def __call__(self, board: NDArray[np.uint8]) -> Thought:
        """The advice on a board `[16]`, or the message of the error."""
        key = board.tobytes()
        try:
            if key not in self._known:
                self._known[key] = self.advise(board)
        except OctofoldError as error:
            return str(error)
        return self._known[key]

    @property
    def tells_costs(self) -> bool:
        """Whether its values tell what a move costs."""
        return self.worth is not None

    def mistakes(self, boards: NDArray[np.uint8], made: NDArray[np.uint8]) -> NDArray[np.bool_] | str:
        """Whether each move made `[N]` on boards `[N, 16]` costs too much, or the message of the error."""
        assert self.worth is not None
        try:
            values = self.worth(boards)
        except OctofoldError as error:
            return str(error)
        values = np.where(legal_moves(boards), values, -np.inf)
        costs: NDArray[np.float64] = values.max(axis=1) - values[np.arange(len(made)), made]
        return np.greater_equal(costs, COSTLY[self.unit])

    def choices(self, boards: NDArray[np.uint8]) -> NDArray[np.int64] | str:
        """The choices `[N]` for boards `[N, 16]`, or the message of the error."""
        try:
            return self.choose(boards)
        except OctofoldError as error:
            return str(error)


def served_adviser(client: Client, served: ServedModel) -> Adviser:
    """A served model version, as an adviser."""
    model, version = served.model, served.version.version

    def advise(board: NDArray[np.uint8]) -> Advice:
        answer = client.next_move(board, model=model, version=version)
        if not served.is_player:
            values = answer.probabilities.astype(np.float64)
            votes = answer.votes if served.votes_decide else None
            return Advice(served.title, answer.move, values, PROBABILITY, votes)
        has_values = answer.values is not None and np.isfinite(answer.values).any()
        worth = answer.values.astype(np.float64) if answer.values is not None and has_values else None
        return Advice(served.title, answer.move, worth, served.value_unit, None)

    def choose(boards: NDArray[np.uint8]) -> NDArray[np.int64]:
        return client.next_moves(boards, model=model, version=version).moves.astype(np.int64)

    if not served.is_player:
        return Adviser(advise, choose, _SERVED_BOARDS)
    if served.value_unit not in COSTLY:
        return Adviser(advise, choose, _LOCAL_BOARDS)
    judge = served_judge(client, served)
    return Adviser(advise, choose, _LOCAL_BOARDS, lambda boards: judge.ask(boards).values, judge.unit)


def local_adviser(spec: str) -> Adviser:
    """The local player of a spec, as an adviser.

    Raises:
        EvaluationError: the player is unknown.
    """
    contender = local_player(spec)
    player = contender.player

    def advise(board: NDArray[np.uint8]) -> Advice:
        choice = int(player.next_moves(board[None])[0])  # not always the one of the largest value
        if not isinstance(player, ValuingPlayer):
            return Advice(contender.title, choice, None, "", None)
        return Advice(contender.title, choice, player.action_values(board[None])[0], player.value_unit, None)

    def choose(boards: NDArray[np.uint8]) -> NDArray[np.int64]:
        return player.next_moves(boards).astype(np.int64)

    if isinstance(player, ValuingPlayer) and player.value_unit in COSTLY:
        return Adviser(advise, choose, _LOCAL_BOARDS, player.action_values, player.value_unit)
    return Adviser(advise, choose, _LOCAL_BOARDS)
