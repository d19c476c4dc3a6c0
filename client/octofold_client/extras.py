"""Modules that the base install cannot import, and the command that installs what they need."""

from importlib import import_module
from types import ModuleType

from octofold_game.extras import install_command

from octofold_client.errors import EvaluationError


def pictures_of(module: str) -> ModuleType:
    """The module of this name, which draws with matplotlib. Raises `EvaluationError` without matplotlib."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "matplotlib").partition(".")[0]
        raise EvaluationError(f"pictures need {missing}: run {install_command('plots')}") from None
