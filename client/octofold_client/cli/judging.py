"""The flag `--judge`, and who it means: a judge, or an adviser on single boards."""

import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

from octofold_game.commands.options import Name, option

from octofold_client.cli.arguments import DEFAULT_TARGET, ServerFlags, asked_for
from octofold_client.contenders.advice import Adviser, local_adviser, served_adviser
from octofold_client.contenders.judges import Judge, local_judge, served_judge
from octofold_client.contenders.local_players import is_spec
from octofold_client.contenders.served_model import ServedModel
from octofold_client.errors import UnknownModel, UsageError
from octofold_client.rpc.client import Client

_Named = TypeVar("_Named", Judge, Adviser)

_LISTENING_SECONDS = 0.5


@dataclass(kw_only=True)
class JudgeFlags(ServerFlags):
    """Who judges, and the servers that may have it."""

    judge: Name = option(
        "",
        "who judges the moves: a local player, such as ntuple:models/ntuple/2, or a model of the server, "
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

    def adviser_of(self, stack: ExitStack) -> Adviser | None:
        """The judge as an adviser, which need not value moves.

        Without the flag, it is the server's default model, or None if no server was named and none answers.

        Raises:
            EvaluationError: the player is unknown.
            OctofoldError: a server that was named cannot be reached, or does not have the model.
        """
        if self.judge:
            return self._named(stack, local_adviser, served_adviser)
        if self.targets == [DEFAULT_TARGET] and not _is_listening(DEFAULT_TARGET):
            return None
        found = stack.enter_context(self.servers())
        return served_adviser(found.client, found.select("", ""))

    def _named(
        self,
        stack: ExitStack,
        local: Callable[[str], _Named],
        served: Callable[[Client, ServedModel], _Named],
    ) -> _Named | None:
        if not self.judge:
            return None
        unfit = None
        if is_spec(self.judge):
            try:
                return local(self.judge)
            except UsageError as error:  # it needs options: the server may have a model of this name
                if ":" in self.judge or not _is_listening(self.targets[0]):
                    raise
                unfit = error
        found = stack.enter_context(self.servers())
        try:
            selected = found.select(*asked_for(self.judge))
        except UnknownModel as error:
            raise unfit or error from None
        return served(found.client, selected)


def _is_listening(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), _LISTENING_SECONDS).close()
    except OSError:
        return False
    return True
