"""Recipes: TOML files with everything that is needed to train a model again.

A recipe has a table `[network]`, the architecture, and one table of options for each learning algorithm that
the model goes through. This module turns tables into the options dataclasses that it is given; an error names
the file and the table.
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
    """The recipe is missing, is not valid TOML, or has a wrong table, key or value."""


@dataclass(frozen=True)
class Recipe:
    """A recipe: its file and its tables."""

    file: Path
    tables: dict[str, dict[str, Any]]

    @property
    def name(self) -> str:
        """The model's name."""
        return self.file.stem

    def table(self, name: str) -> dict[str, Any]:
        """Return a table as it stands in the file.

        Raises:
            RecipeError: there is none.
        """
        if name not in self.tables:
            raise RecipeError(f"{self.file}: has no table [{name}]")
        return self.tables[name]

    def network(self) -> Architecture:
        """Return the table `network`.

        Raises:
            RecipeError: it is missing or describes no network.
        """
        table = self.table("network")
        try:
            architecture_of(table)
        except ArchitectureError as error:
            raise RecipeError(f"{self.file}: [network] {error}") from error
        return table

    def options(self, name: str, kind: type[Options]) -> Options:
        """Return the table `name` as the dataclass `kind`, whose defaults fill what it leaves out.

        Raises:
            RecipeError: a table is missing, a key is unknown, or a value has the wrong type or is out of
                bounds.
        """
        table = self.table(name)
        try:
            return check_options(table, kind)
        except ValueError as error:
            raise RecipeError(f"{self.file}: [{name}] {error}") from error


def read_recipe(file: Path, known_tables: Sequence[str]) -> Recipe:
    """Read a recipe with some of the `known_tables`.

    Raises:
        RecipeError: the file cannot be read, or has another table.
    """
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RecipeError(f"{file}: no such recipe") from error
    except OSError as error:
        raise RecipeError(f"{file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # ValueError: also of bytes that are no text
        raise RecipeError(f"{file}: not TOML ({error})") from error
    for name, table in tables.items():
        if not isinstance(table, dict):
            if name in known_tables and isinstance(table, list):
                raise RecipeError(f"{file}: write [{name}] in place of [[{name}]]")
            meant = did_you_mean(name, known_tables) or "; put it below a heading, such as [distil]"
            raise RecipeError(f"{file}: {name!r} stands outside of a table{meant}")
        if name not in known_tables:
            meant = did_you_mean(name, known_tables) or f"; it may have {', '.join(known_tables)}"
            raise RecipeError(f"{file}: a recipe has no table [{name}]{meant}")
    return Recipe(file, tables)
