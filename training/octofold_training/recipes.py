"""Recipes: TOML files with everything needed to train a model again.

A recipe has a table of options for each learning algorithm of the model. The recipe of a neural network also
has a table `[network]` with the architecture. This module turns tables into options dataclasses. Its errors
name the file and the table.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from octofold_game.commands.suggestions import did_you_mean

from octofold_training.errors import TrainingError
from octofold_training.networks.architectures import Architecture, ArchitectureError, architecture_of
from octofold_training.run.options import check_options

Options = TypeVar("Options")


class RecipeError(TrainingError):
    """An error about a recipe that is missing, is not valid TOML, or has a wrong table, key or value."""


@dataclass(frozen=True)
class Recipe:
    """The tables of a recipe, and the file that contains them."""

    file: Path
    tables: dict[str, dict[str, Any]]

    @property
    def name(self) -> str:
        """The name of the model: the file's name without its suffix."""
        return self.file.stem

    def table(self, name: str) -> dict[str, Any]:
        """Return a table as it is in the file.

        Raises:
            RecipeError: the table is missing.
        """
        if name not in self.tables:
            raise RecipeError(f"{self.file}: table [{name}] is missing")
        return self.tables[name]

    def network(self) -> Architecture:
        """Return the table `network`.

        Raises:
            RecipeError: the table is missing or does not describe a network.
        """
        table = self.table("network")
        try:
            architecture_of(table)
        except ArchitectureError as error:
            raise RecipeError(f"{self.file}: [network] {error}") from error
        return table

    def options(self, name: str, kind: type[Options]) -> Options:
        """Return the table `name` as the dataclass `kind`. Missing keys get the defaults of the dataclass.

        Raises:
            RecipeError: the table is missing, a key is unknown, or a value has the wrong type or is out of
                bounds.
        """
        table = self.table(name)
        try:
            return check_options(table, kind)
        except ValueError as error:
            raise RecipeError(f"{self.file}: [{name}] {error}") from error


def read_recipe(file: Path, known_tables: Sequence[str]) -> Recipe:
    """Read a recipe. The names of its tables must be among `known_tables`.

    Raises:
        RecipeError: the file cannot be read, is not valid TOML, or has a key outside of `known_tables`.
    """
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RecipeError(f"{file}: recipe does not exist") from error
    except OSError as error:
        raise RecipeError(f"{file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # ValueError: not text, or not TOML
        raise RecipeError(f"{file}: not valid TOML ({error})") from error
    for name, table in tables.items():
        if not isinstance(table, dict):
            if name in known_tables and isinstance(table, list):
                raise RecipeError(f"{file}: table must be [{name}], got [[{name}]]")
            meant = (
                did_you_mean(name, known_tables) or f"; move it below a heading, such as [{known_tables[0]}]"
            )
            raise RecipeError(f"{file}: key {name!r} is outside of a table{meant}")
        if name not in known_tables:
            meant = did_you_mean(name, known_tables) or f"; choose from {', '.join(known_tables)}"
            raise RecipeError(f"{file}: unknown table [{name}]{meant}")
    return Recipe(file, tables)
