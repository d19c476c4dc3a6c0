"""The flag `--judge`, and who it means: a judge, or an adviser on single boards."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from octofold_game.commands.options import Name, option
from octofold_game.rules import legal_moves

from octofold_client.cli.arguments import ServerFlags, asked_for
from octofold_client.contenders.advice import Advice, Adviser, Thought, local_adviser, served_adviser
from octofold_client.contenders.judges import COSTLY, Judge, local_judge, served_judge
from octofold_client.contenders.player_specs import is_spec
from octofold_client.contenders.served_model import ServedModel
from octofold_client.errors import OctofoldError
from octofold_client.rpc.client import Client

_Named = TypeVar("_Named", Judge, Adviser)


@dataclass(kw_only=True)
class JudgeFlags(ServerFlags):
    """Who judges, and the servers that may have it."""

    judge: Name = option(
        "",
        "who values the moves: a local player, such as ntuple:models/ntuple/2, or a model of the server, "
        "NAME or NAME:VERSION",
        metavar="WHO",
    )

    def judge_of(self, stack: ExitStack) -> Judge | None:
        """The judge of the flag; None without it.

        Raises:
            EvaluationError: the player is unknown, or does not value moves.
            OctofoldError: the server cannot be reached, or does not have the model.
        """
        return self._named(stack, local_judge, served_judge)

    def adviser_of(self, stack: ExitStack) -> "CachedAdviser | None":
        """The judge as an adviser, which need not value moves; None without the flag.

        Raises:
            EvaluationError: the player is unknown.
            OctofoldError: the server cannot be reached, or does not have the model.
        """
        adviser = self._named(stack, local_adviser, served_adviser)
        return None if adviser is None else CachedAdviser(adviser)

    def _named(
        self,
        stack: ExitStack,
        local: Callable[[str], _Named],
        served: Callable[[Client, ServedModel], _Named],
    ) -> _Named | None:
        if not self.judge:
            return None
        if is_spec(self.judge):
            return local(self.judge)
        found = stack.enter_context(self.servers())
        return served(found.client, found.select(*asked_for(self.judge)))


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
