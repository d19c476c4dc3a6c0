"""Judges are local players and served models that value moves. Advisers need not value moves.

Each judge has its own unit: points for an n-tuple network, a probability for a policy network.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from octofold_game.player import TileValuingPlayer, ValuingPlayer
from octofold_game.rules import LARGEST_EXPONENT, legal_moves

from octofold_client.contenders.local_players import local_player
from octofold_client.contenders.player_thread import BOARDS_AT_ONCE
from octofold_client.contenders.served_model import ServedModel
from octofold_client.errors import OctofoldError, UsageError
from octofold_client.rpc.client import Client

PROBABILITY, SUCCESS = "probability", "chance of success"
_SERVED_BOARDS_AT_ONCE = 1024


@dataclass(frozen=True)
class Opinion:
    """A judge's opinion of N boards, each with a legal move."""

    choices: NDArray[np.int8]
    """`[N]`: the judge's own moves."""
    values: NDArray[np.float64]
    """`[N, 4]`: the value of each move; undefined for illegal moves."""


@dataclass(frozen=True)
class Judge:
    """A local player or a served model that values moves."""

    name: str
    sha256: str | None
    unit: str
    """Unit of the judge's values."""
    largest_exponent: int
    boards_at_once: int
    """Maximum number of boards in a call of `ask`."""
    ask: Callable[[NDArray[np.uint8]], Opinion]
    """Function that returns the judge's opinion of boards `[N, 16]`."""
    all_tiles: Callable[[NDArray[np.uint8]], NDArray[np.float32]] | None = None
    """The player's method `tile_values` (see `TileValuingPlayer`); None without this method."""

    def tile_values(self, afterstates: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the value of each afterstate with each new tile, `[N, 2, 16]`; see `TileValuingPlayer`."""
        if self.all_tiles is not None:
            return self.all_tiles(afterstates)
        values = np.full((len(afterstates), 2, 16), np.nan, np.float32)
        rows, cells = np.nonzero(afterstates == 0)
        for tile in range(2):
            boards = afterstates[rows]
            boards[np.arange(len(rows)), cells] = tile + 1
            values[rows, tile, cells] = self._board_values(boards)
        return values

    def _board_values(self, boards: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return the value of the best move on each board, at least 0: `[N]`.

        It is 0 if the game is over, or if a tile is too large for the judge.
        """
        legal = legal_moves(boards)
        worth = np.zeros(len(boards))
        running = np.flatnonzero(legal.any(axis=1) & (boards.max(axis=1, initial=0) <= self.largest_exponent))
        for start in range(0, len(running), self.boards_at_once):
            some = running[start : start + self.boards_at_once]
            values = self.ask(boards[some]).values
            worth[some] = np.where(legal[some], values, 0).max(axis=1, initial=0)
        return worth


def local_judge(spec: str) -> Judge:
    """Make a judge from the local player that a spec names.

    Raises:
        UsageError: the spec is invalid (see `local_player`), or the player does not value moves.
        EvaluationError: a package or a file is missing, or the player rejects the value of an option.
    """
    contender = local_player(spec)
    player = contender.player
    if not isinstance(player, ValuingPlayer):
        raise UsageError(f"{contender.title} cannot be a judge: it does not value moves")
    return Judge(
        contender.title,
        contender.sha256,
        player.value_unit,
        contender.largest_exponent,
        BOARDS_AT_ONCE,
        partial(_player_opinion, player),
        player.tile_values if isinstance(player, TileValuingPlayer) else None,
    )


def served_judge(client: Client, selected: ServedModel) -> Judge:
    """Make a judge from a served model version.

    Raises:
        UsageError: the version is a player that does not value moves.
    """
    if selected.is_player and not selected.value_unit:
        raise UsageError(f"{selected.title} cannot be a judge: it does not value moves")
    return Judge(
        selected.title,
        selected.sha256,
        selected.value_unit if selected.is_player else PROBABILITY,
        selected.largest_exponent or LARGEST_EXPONENT,
        _SERVED_BOARDS_AT_ONCE // 16 if selected.is_player else _SERVED_BOARDS_AT_ONCE,  # searches take time
        partial(_model_opinion, client, selected),
    )


def _player_opinion(player: ValuingPlayer, boards: NDArray[np.uint8]) -> Opinion:
    values = player.action_values(boards)
    own = player.next_moves(boards) if getattr(player, "endgames", ()) else values.argmax(axis=1)
    return Opinion(own.astype(np.int8), values)


def _model_opinion(client: Client, served: ServedModel, boards: NDArray[np.uint8]) -> Opinion:
    answers = served.check(client.next_moves(boards, model=served.model, version=served.version.version))
    worth = answers.values if served.is_player else answers.probabilities
    assert worth is not None
    # A player that takes a move from an endgame table may have no values.
    is_known = np.isfinite(worth).any(axis=1, keepdims=True)
    return Opinion(answers.moves, np.where(is_known, worth, 0).astype(np.float64))


@dataclass(frozen=True)
class Advice:
    """An adviser's opinion of one board."""

    adviser: str
    choice: int
    """The move that the adviser would make, 0 to 3; -1 if the game is over."""
    values: NDArray[np.float64] | None
    """`[4]`: the value of each move; undefined for illegal moves. None if the adviser gives no values."""
    unit: str
    """Unit of the values, such as `probability` or `points`; empty for a player that does not value moves."""
    votes: NDArray[np.uint8] | None
    """`[4]`: number of symmetric views of the board that voted for each move; None if no views vote."""

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
    """Make an adviser from a served model version."""

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
    """Make an adviser from the local player that a spec names.

    Raises:
        EvaluationError: the spec is invalid, or the player cannot be made; see `local_player`.
    """
    contender = local_player(spec)
    player = contender.player

    def advise(board: NDArray[np.uint8]) -> Advice:
        choice = int(player.next_moves(board[None])[0])  # may differ from the move with the largest value
        if not isinstance(player, ValuingPlayer):
            return Advice(contender.title, choice, None, "", None)
        return Advice(contender.title, choice, player.action_values(board[None])[0], player.value_unit, None)

    return Adviser(advise)
