"""The flags that name an adviser, and the adviser that they mean."""

from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from octofold_game.commands.options import option
from octofold_game.rules import legal_moves

from octofold_client.cli.arguments import DEFAULT_TARGET, ModelFlags, OptionalServerFlags, asked_for
from octofold_client.contenders.advice import Advice, Adviser, Thought, local_adviser, served_adviser
from octofold_client.contenders.judges import COSTLY
from octofold_client.errors import OctofoldError, UsageError


@dataclass(kw_only=True)
class AdviserFlags(OptionalServerFlags, ModelFlags):
    """Who is asked for advice."""

    player: str | None = option(None, "local player to ask, such as ntuple:models/ntuple/2", metavar="SPEC")

    def adviser(self, stack: ExitStack) -> "CachedAdviser | None":
        """The adviser of the flags; None if no flag names one.

        Raises:
            UsageError: the player is unknown, or both a player and a model are named.
            OctofoldError: the server cannot be reached, or does not have the model.
        """
        served = self.targets or self.model or self.version
        if self.player and served:
            raise UsageError("--player and a model of a server exclude each other")
        if self.player:
            return CachedAdviser(local_adviser(self.player))
        if not served:
            return None
        self.targets = self.targets or [DEFAULT_TARGET]
        asked = asked_for(self.model, self.version)
        found = stack.enter_context(self.servers())
        model = found.select(*asked)
        return CachedAdviser(served_adviser(found.client, model))


class CachedAdviser:
    """An adviser that is asked once about each board, and whose errors are texts."""

    def __init__(self, adviser: Adviser) -> None:
        self._adviser = adviser
        self._known: dict[bytes, Advice] = {}

    @property
    def boards_at_once(self) -> int:
        """Number of boards for one call of `choices`."""
        return self._adviser.boards_at_once

    def __call__(self, board: NDArray[np.uint8]) -> Thought:
        """The advice on a board `[16]`, or the message of the error."""
        key = board.tobytes()
        try:
            if key not in self._known:
                self._known[key] = self._adviser.advise(board)
        except OctofoldError as error:
            return str(error)
        return self._known[key]

    @property
    def tells_costs(self) -> bool:
        """Whether its values tell what a move costs."""
        return self._adviser.worth is not None

    def mistakes(self, boards: NDArray[np.uint8], made: NDArray[np.uint8]) -> NDArray[np.bool_] | str:
        """Whether each move made `[N]` on boards `[N, 16]` costs too much, or the message of the error."""
        assert self._adviser.worth is not None
        try:
            values = self._adviser.worth(boards)
        except OctofoldError as error:
            return str(error)
        values = np.where(legal_moves(boards), values, -np.inf)
        costs: NDArray[np.float64] = values.max(axis=1) - values[np.arange(len(made)), made]
        return np.greater_equal(costs, COSTLY[self._adviser.unit])

    def choices(self, boards: NDArray[np.uint8]) -> NDArray[np.int64] | str:
        """The choices `[N]` for boards `[N, 16]`, or the message of the error."""
        try:
            return self._adviser.choose(boards)
        except OctofoldError as error:
            return str(error)
