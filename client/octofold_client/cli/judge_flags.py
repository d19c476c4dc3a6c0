"""The flags `--judge` and `--luck`, which name a player or model that values moves and boards."""

import os
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from octofold_game.commands.options import Name, option

from octofold_client.cli.shared_flags import DEFAULT_TARGET, ServerFlags, name_and_version
from octofold_client.contenders.judges import (
    Adviser,
    Judge,
    local_adviser,
    local_judge,
    served_adviser,
    served_judge,
)
from octofold_client.contenders.local_players import is_spec
from octofold_client.contenders.served_model import ServedModel
from octofold_client.errors import EvaluationError, UnknownModel, UsageError
from octofold_client.evaluation.luck import check_unit
from octofold_client.rpc.client import Client
from octofold_client.wording import counted

_JudgeOrAdviser = TypeVar("_JudgeOrAdviser", Judge, Adviser)
_CONNECT_TIMEOUT_SECONDS = 0.5
_NONE = "none"
DEFAULT_MODELS = Path("models")
_VARIABLE = "OCTOFOLD_MODELS"
"""Environment variable for the folder of the model repository; `octofold-serve` reads it, too."""
_SHIPPED = "ntuple"


def _make(
    who: str,
    flags: ServerFlags,
    stack: ExitStack,
    local: Callable[[str], _JudgeOrAdviser],
    served: Callable[[Client, ServedModel], _JudgeOrAdviser],
) -> _JudgeOrAdviser:
    """Make a judge or an adviser from the local player or the model of the server that `who` names.

    If `who` is the spec of a local player, `local` makes it. Otherwise, or if `local` refuses a spec without
    options while the server listens, `served` makes it from a model of the server.
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
    except (OSError, ValueError):  # a Unix socket, whose address has no port
        return False
    return True


@dataclass(kw_only=True)
class JudgeFlags(ServerFlags):
    """The flag `--judge`, and the flags of the servers whose models it may name."""

    judge: Name = option(
        "",
        "judge the moves with this local player (such as ntuple:models/ntuple/4) or this model of the server "
        "(NAME or NAME:VERSION)",
        metavar="WHO",
    )

    def judge_of(self, stack: ExitStack) -> Judge | None:
        """Return the judge that `--judge` names; None without the flag.

        Raises:
            EvaluationError: the player is unknown, or does not value moves.
            OctofoldError: the server cannot be reached, or does not have the model.
        """
        return _make(self.judge, self, stack, local_judge, served_judge) if self.judge else None

    def adviser_of(self, stack: ExitStack) -> Adviser | None:
        """Return the adviser that `--judge` names; without the flag, the server's default model.

        Unlike a judge, an adviser need not value moves. Return None if neither `--judge` nor `--target` is
        given and no server answers at the default address. The errors are those of `judge_of`.
        """
        if self.judge:
            return _make(self.judge, self, stack, local_adviser, served_adviser)
        if self.targets == [DEFAULT_TARGET] and not _is_listening(DEFAULT_TARGET):
            return None
        found = stack.enter_context(self.servers())
        return served_adviser(found.client, found.select("", ""))


@dataclass(kw_only=True)
class LuckFlag(ServerFlags):
    """The flag `--luck`, which names the judge whose values remove the luck of the tiles from scores."""

    luck: Name = option(
        "",
        "remove the luck of the tiles from scores, with the values (in points) of this local player (such as "
        "ntuple:models/ntuple/4) or this model of the server (NAME or NAME:VERSION); "
        f'"none" turns this off (default: the newest version of the model {_SHIPPED} in the folder that the '
        f"variable {_VARIABLE} names, or else in ./{DEFAULT_MODELS}; none without this model or numba)",
        metavar="WHO",
    )

    def values(self, stack: ExitStack, models: Path | None = None) -> Judge | None:
        """Return the judge whose values remove luck from scores; None if scores are not adjusted.

        `models` is the model repository that the command uses, if any.

        Raises:
            UsageError: the judge's values are not in points.
            EvaluationError: the player is unknown, or does not value moves.
            OctofoldError: the server cannot be reached, or does not have the model.
        """
        if not self.luck:
            return shipped_judge(models)
        if self.luck == _NONE:
            return None
        judge = _make(self.luck, self, stack, local_judge, served_judge)
        check_unit(judge)
        return judge


def shipped_judge(models: Path | None = None) -> Judge | None:
    """Return a judge: the newest n-tuple network of the first model repository where it can be loaded.

    The repositories are, in this order: `models`, the one that OCTOFOLD_MODELS names, and the default one.
    Return None if no repository has an n-tuple network that can be loaded, or if numba is missing.
    """
    repositories = (models, os.environ.get(_VARIABLE), DEFAULT_MODELS)
    for known in [Path(folder) / _SHIPPED for folder in repositories if folder]:
        if versions := [int(each.name) for each in known.glob("*") if each.name.isdecimal()]:
            with suppress(EvaluationError):
                return local_judge(f"ntuple:{known / str(max(versions))}")
    return None


def print_luck_progress(games: int) -> None:
    """Print the number of games whose luck is computed, if standard error is a terminal."""
    if sys.stderr.isatty():
        print(f"luck of the tiles: computed for {counted(games, 'game')}", file=sys.stderr)
