"""Imports modules that need an extra, or names the command that installs it."""

from importlib import import_module
from types import ModuleType

from octofold_game.commands.extras import install_command

from octofold_client.errors import EvaluationError


def ray_part(module: str) -> ModuleType:
    """Import a module of `octofold_client.ray`.

    Raises:
        EvaluationError: Ray is not installed.
    """
    try:
        return import_module(f"octofold_client.ray.{module}")
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise EvaluationError(f"this needs Ray: run {install_command('ray')}") from None


def pictures_of(module: str) -> ModuleType:
    """Import a module that draws with matplotlib or Pillow.

    Raises:
        EvaluationError: the library is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "matplotlib").partition(".")[0].replace("PIL", "Pillow")
        raise EvaluationError(f"pictures need {missing}: run {install_command('plots')}") from None
