"""Explains how to install a missing extra of the package, such as `plots`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from octofold_game.commands.extras import install_command

from octofold_client.errors import EvaluationError


@contextmanager
def require_extra(extra: Literal["plots", "ray"]) -> Iterator[None]:
    """Run a block that imports modules of an extra.

    Raises:
        EvaluationError: a package of the extra is not installed; the message has the command to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0].replace("PIL", "Pillow")
        if missing.startswith("octofold"):
            raise
        what = "playing on a Ray cluster needs Ray" if extra == "ray" else f"pictures need {missing}"
        raise EvaluationError(f"{what}: run {install_command(extra)}") from None
