"""The backend of players: finds the kinds of players that packages offer by entry points, and runs searches.

The server imports no player. It loads the entry point of a kind when it loads a model version of that kind.
The operator decides which kinds may run; a card can only name one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.metadata import EntryPoint, entry_points

import numpy as np
from numpy.typing import NDArray
from octofold_game.commands.extras import install_command
from octofold_game.commands.suggestions import did_you_mean
from octofold_game.contract.graph import LEGAL
from octofold_game.contract.model import ServedPlayer
from octofold_game.contract.searches import GROUP, Limits, Search, SearchResult
from octofold_game.errors import OctofoldError, first_line
from octofold_game.rules import legal_moves

from octofold_server.backends.backend import EVERYTHING, UNFINISHED, BackendError, Moves, RequestedOutputs
from octofold_server.backends.onnx_backend import EXAMPLES

DISTRIBUTION = "octofold"

WARM_UP = Limits(seconds=0.1)
"""Limits of the search for each board of the warm-up."""


class AllowedPlayerKinds:
    """The kinds of players that may run.

    Args:
        named: names of the allowed kinds; None for the kinds of the distribution `octofold`.

    Attributes:
        are_named: whether the operator named the kinds.

    Raises:
        BackendError: a named kind is in no installed package, or its players cannot be served.
    """

    def __init__(self, named: Collection[str] | None) -> None:
        installed = {point.name: point for point in entry_points(group=GROUP)}
        self.are_named = named is not None
        if named is None:
            named = [name for name, point in installed.items() if _is_ours(point)]
        for name in named:
            if name not in installed:
                raise BackendError(
                    f"no installed package has the kind of player {name!r}; known kinds: "
                    + ", ".join(sorted(installed))
                    + did_you_mean(name, installed)
                )
            if self.are_named and _can_be_served(installed[name]) is False:
                raise BackendError(
                    f"players of the kind {name!r} cannot be served; these kinds can: "
                    + ", ".join(sorted(name for name, point in installed.items() if _can_be_served(point)))
                )
        self._allowed = {name: installed[name] for name in sorted(named)}

    def search(self, player: ServedPlayer, files: Mapping[str, NDArray[np.uint8]], cores: int) -> Search:
        """Make the search that a card describes.

        Args:
            player: the description in the card.
            files: the content of the player's files, by name.
            cores: number of CPU cores that one search may use.

        Raises:
            BackendError: the kind is not allowed or cannot be served here, or its options or files are wrong.
        """
        kind, point = player.kind, self._allowed.get(player.kind)
        if point is None:
            allowed = ", ".join(self._allowed) or "none"
            hint = did_you_mean(kind, self._allowed)
            raise BackendError(
                f"the kind of player {kind!r} is not allowed; --players allows {allowed}{hint}"
            )
        try:
            served = getattr(point.load(), "served", None)
        except ImportError as error:
            package = error.name or str(error)
            hint = f"; install it with: {install_command('players')}" if _is_ours(point) else ""
            raise BackendError(f"the kind of player {kind!r} needs {package}{hint}") from error
        if served is None:
            raise BackendError(f"players of the kind {kind!r} cannot be served: they have no method `served`")
        try:
            search: Search = served(player.options, files, cores)
        except OctofoldError as error:
            raise BackendError(str(error)) from error
        return search


class PlayerBackend:
    """A lane of a player.

    Args:
        search: the search of the player, which all lanes of the player share.
    """

    def __init__(self, search: Search) -> None:
        self._search = search

    def warm_up(self) -> None:
        """Compile and load all that a search needs, so that no caller waits for it, and check some moves.

        Raises:
            BackendError: the player fails, or makes an illegal move.
        """
        try:
            self._search.prepare()
            result = self._search.find(EXAMPLES, WARM_UP)
        except Exception as error:  # a network inside the search may raise any exception
            raise BackendError(first_line(error)) from error
        for board, move, legal in zip(EXAMPLES, result.moves, legal_moves(EXAMPLES), strict=True):
            if move != -1 and not (0 <= move < 4 and legal[move]):
                raise BackendError(f"the player makes the illegal move {move} on the board {board.tolist()}")

    in_stages = False

    def batch_seconds(self, _boards: int) -> float:
        """Return 0, because batch sizes of players are chosen from the times of earlier batches."""
        return 0.0

    def run(self, boards: NDArray[np.uint8], requested: RequestedOutputs = EVERYTHING) -> Moves:
        """Return the answers for boards [N, 16]; a move is `UNFINISHED` if its search ended too early.

        If the batch reaches its time limit, the last boards have no answers.
        """
        result = self._find(boards, requested)
        moves, legal = result.moves, None
        boards = boards[: len(moves)]
        no_move = moves < 0
        if LEGAL.name in requested.outputs or no_move.any():
            legal = legal_moves(boards)
            moves = np.where(no_move & legal.any(axis=1), np.int8(UNFINISHED), moves)
        return Moves(moves, None, None, legal, result.values, result.depth, result.positions)

    def _find(self, boards: NDArray[np.uint8], requested: RequestedOutputs) -> SearchResult:
        """Return the results for the boards. If `requested.running` is known, search only these boards."""
        if requested.running is None:
            return self._search.find(boards, requested.limits)
        count, running = len(boards), requested.running
        moves = np.full(count, -1, np.int8)
        values = None if self._search.value_unit is None else np.full((count, 4), -np.inf, np.float32)
        depth, positions = np.zeros(count, np.uint8), np.zeros(count, np.int64)
        if len(running):
            found = self._search.find(boards[running], requested.limits)
            if len(found.moves) < len(running):
                count = int(running[len(found.moves)])
                running = running[: len(found.moves)]
            moves[running], depth[running], positions[running] = found.moves, found.depth, found.positions
            if values is not None:
                values[running] = found.values
        return SearchResult(
            moves[:count], None if values is None else values[:count], depth[:count], positions[:count]
        )


def _can_be_served(point: EntryPoint) -> bool | None:
    """Return whether players of a kind can be served; None if a package that the kind needs is missing."""
    try:
        return hasattr(point.load(), "served")
    except ImportError:
        return None


def _is_ours(point: EntryPoint) -> bool:
    return point.dist is not None and point.dist.name == DISTRIBUTION
