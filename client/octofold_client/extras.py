"""Modules that the base install cannot import, and what to install for them."""

from importlib import import_module
from types import ModuleType

from octofold_client.errors import EvaluationError


def pictures_of(module: str) -> ModuleType:
    """The module of this name, which draws with matplotlib. Raises `EvaluationError` without matplotlib."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise EvaluationError(f"pictures need {error.name}: install octofold[plots]") from None
