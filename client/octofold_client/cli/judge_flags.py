"""The flags `--judge` and `--luck`: players and models that value moves and boards."""

import os
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from octofold_game.commands.options import Name, option

from octofold_client.cli.arguments import DEFAULT_TARGET, ServerFlags, name_and_version
from octofold_client.contenders.advice import Adviser, local_adviser, served_adviser
from octofold_client.contenders.judges import Judge, local_judge, served_judge
from octofold_client.contenders.local_players import is_spec
from octofold_client.contenders.served_model import ServedModel
from octofold_client.errors import EvaluationError, UnknownModel, UsageError
from octofold_client.evaluation.luck import check_unit
from octofold_client.rpc.client import Client

_Named = TypeVar("_Named", Judge, Adviser)
_CONNECT_TIMEOUT_SECONDS = 0.5
_NONE = "none"
DEFAULT_MODELS = Path("models")
_VARIABLE = "OCTOFOLD_MODELS"
"""Environment variable for the folder of the model repository; `octofold-serve` reads it, too."""
_SHIPPED = "ntuple"


def _find(
    who: str,
    flags: ServerFlags,
    stack: ExitStack,
    local: Callable[[str], _Named],
    served: Callable[[Client, ServedModel], _Named],
) -> _Named:
    """Return the local player of the spec `who`, or the model of the server that `who` names.

    If `who` is the name of a local player but lacks required options, return the server's model of this name,
    if there is one.
    """
    unfit = None
    if is_spec(who):
        try:
            return local(who)
        except UsageError as error:
            if ":" in who or not _is_listening(flags.targets[0]):
                raise
            unfit = error
    found = stack.enter_context(flags.servers())
    try:
        selected = found.select(*name_and_version(who))
    except UnknownModel as error:
        raise unfit or error from None
    return served(found.client, selected)


def _is_listening(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _CONNECT_TIMEOUT_SECONDS).close()
    except (OSError, ValueError):  # an address of a Unix socket has no port
        return False
    return True


@dataclass(kw_only=True)
class JudgeFlags(ServerFlags):
    """The flag `--judge`, and the servers that may have the judge."""

    judge: Name = option(
        "",
        "judge the moves with this local player (such as ntuple:models/ntuple/3) or this model of the server "
        "(NAME or NAME:VERSION)",
        metavar="WHO",
    )

    def judge_of(self, stack: ExitStack) -> Judge | None:
        """Return the judge of the flag; None without the flag.

        Raises:
            EvaluationError: the player is unknown, or does not value moves.
            OctofoldError: the server cannot be reached, or does not have the model.
        """
        return _find(self.judge, self, stack, local_judge, served_judge) if self.judge else None

    def adviser_of(self, stack: ExitStack) -> Adviser | None:
        """Return the adviser that the flag names. It raises the errors of `judge_of`.

        Unlike a judge, an adviser need not value moves. Without the flag, the server's default model is the
        adviser. Return None if neither a judge nor a server is named and no server answers at the default
        address.
        """
        if self.judge:
            return _find(self.judge, self, stack, local_adviser, served_adviser)
        if self.targets == [DEFAULT_TARGET] and not _is_listening(DEFAULT_TARGET):
            return None
        found = stack.enter_context(self.servers())
        return served_adviser(found.client, found.select("", ""))


@dataclass(kw_only=True)
class LuckFlag(ServerFlags):
    """The flag `--luck`: the judge whose values take luck out of scores."""

    luck: Name = option(
        "",
        "take the luck of the tiles out of scores, by the values (in points) of this local player (such as "
        "ntuple:models/ntuple/3) or this model of the server (NAME or NAME:VERSION); "
        f'"none" leaves the luck in (default: the newest version of {_SHIPPED} in the model repository of '
        f"the variable {_VARIABLE}, or else in ./{DEFAULT_MODELS}, if there is one and numba is installed)",
        metavar="WHO",
    )

    def values(self, stack: ExitStack, models: Path | None = None) -> Judge | None:
        """Return the judge whose values take luck out of scores; None if luck stays in.

        `models` is the model repository of the command, if it has one.

        Raises:
            UsageError: the values are not points.
            EvaluationError: the player is unknown, or does not value moves.
            OctofoldError: the server cannot be reached, or does not have the model.
        """
        if not self.luck:
            return shipped_values(models)
        if self.luck == _NONE:
            return None
        judge = _find(self.luck, self, stack, local_judge, served_judge)
        check_unit(judge)
        return judge


def shipped_values(models: Path | None = None) -> Judge | None:
    """Return the newest n-tuple network of the model repository; None without it or without numba.

    It searches `models`, then the repository of the environment variable, then the default repository.
    """
    repositories = (models, os.environ.get(_VARIABLE), DEFAULT_MODELS)
    for known in [Path(folder) / _SHIPPED for folder in repositories if folder]:
        if versions := [int(each.name) for each in known.glob("*") if each.name.isdecimal()]:
            with suppress(EvaluationError):
                return local_judge(f"ntuple:{known / str(max(versions))}")
    return None


def print_luck_progress(games: int) -> None:
    """Print the progress of `luck_in` if standard error is a terminal. This is its callback."""
    if sys.stderr.isatty():
        print(f"luck of the tiles: computed for {games:,} games", file=sys.stderr)
