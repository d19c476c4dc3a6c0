"""The flag `--luck`: whose values tell how lucky the tiles of a game were."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from octofold_game.commands.options import Name, option

from octofold_client.cli.arguments import ServerFlags, asked_for
from octofold_client.contenders.judges import Judge, local_judge, served_judge
from octofold_client.contenders.local_players import is_spec
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.luck import check_unit

_NONE = "none"
_SHIPPED = Path("models/ntuple")


@dataclass(kw_only=True)
class LuckFlag(ServerFlags):
    """Whose values to use."""

    luck: Name = option(
        "",
        "take the luck of the tiles out of scores by the values of this local player, such as "
        "ntuple:models/ntuple/2, or model of the server, NAME or NAME:VERSION, which must be in points; none "
        f"leaves it in (default: the newest version of {_SHIPPED}, if it is here and numba is installed)",
        metavar="WHO",
    )

    def values(self, stack: ExitStack) -> Judge | None:
        """Whose values to use; None for nobody's.

        Raises:
            UsageError: the values are not points.
            EvaluationError: the player is unknown, or does not value moves.
            OctofoldError: the server cannot be reached, or does not have the model.
        """
        if not self.luck:
            return shipped_values()
        if self.luck == _NONE:
            return None
        if is_spec(self.luck):
            judge = local_judge(self.luck)
        else:
            found = stack.enter_context(self.servers())
            judge = served_judge(found.client, found.select(*asked_for(self.luck)))
        check_unit(judge)
        return judge


def shipped_values() -> Judge | None:
    """The newest n-tuple network of the model repository; None without it or numba."""
    versions = [int(each.name) for each in _SHIPPED.glob("*") if each.name.isdecimal()]
    if not versions:
        return None
    try:
        return local_judge(f"ntuple:{_SHIPPED / str(max(versions))}")
    except EvaluationError:
        return None


def tell(games: int) -> None:
    """Say on a terminal how far the work is; for `luck_in`."""
    if sys.stderr.isatty():
        print(f"luck of the tiles: {games:,} games", file=sys.stderr)
