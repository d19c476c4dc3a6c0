"""Recipes: TOML files with everything that is needed to train a model again.

A recipe has a table `[network]`, the architecture, and one table of options for each learning algorithm that
the model goes through. This module knows neither networks nor algorithms: it turns tables into the options
dataclasses that it is given, and says what in the file is wrong.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from octofold_game.suggestions import did_you_mean

Options = TypeVar("Options")


class RecipeError(ValueError):
    """The recipe is missing, is not valid TOML, or has a wrong table, key or value."""


@dataclass(frozen=True)
class Recipe:
    """A recipe's tables, and its name: that of the file."""

    file: Path
    tables: dict[str, dict[str, Any]]

    @property
    def name(self) -> str:
        """The model's name."""
        return self.file.stem

    def table(self, name: str) -> dict[str, Any]:
        """A table as it stands in the file. Raises `RecipeError` if there is none."""
        if name not in self.tables:
            raise RecipeError(f"{self.file}: has no table [{name}]{did_you_mean(name, self.tables)}")
        return self.tables[name]

    def options(self, name: str, kind: type[Options]) -> Options:
        """The table `name` as the dataclass `kind`, whose defaults fill what it leaves out.

        Raises `RecipeError` for a missing table, an unknown key, a value of another type or out of bounds.
        """
        table = self.table(name)
        known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
        for key, value in table.items():
            if key not in known:
                raise RecipeError(f"{self.file}: [{name}] has no {key!r}{_meant(key, known)}")
            self._check(f"[{name}] {key}", value, known[key])
        try:
            return kind(**{key: _frozen(value) for key, value in table.items()})
        except ValueError as error:
            raise RecipeError(f"{self.file}: [{name}] {error}") from error

    def _check(self, place: str, value: Any, known: Field[Any]) -> None:
        kind = type(known.default)
        if kind is tuple:
            right, wanted = isinstance(value, list), "a list"
        elif kind is float:
            right, wanted = type(value) in (int, float), "a number"
        else:
            right, wanted = (
                type(value) is kind,
                {int: "a whole number", bool: "true or false"}.get(kind, "text"),
            )
        if not right:
            raise RecipeError(f"{self.file}: {place} is {value!r}, not {wanted}")
        if kind in (int, float):
            least, most = known.metadata["minimum"], known.metadata["maximum"]
            if not value >= least:
                raise RecipeError(f"{self.file}: {place} is {value!r}; the least is {least:g}")
            if value > most:
                raise RecipeError(f"{self.file}: {place} is {value!r}; the most is {most:g}")


def read_recipe(file: Path) -> Recipe:
    """Read a recipe. Raises `RecipeError` that says what is wrong with the file."""
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RecipeError(f"{file}: no such recipe") from error
    except OSError as error:
        raise RecipeError(f"{file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{file}: not TOML ({error})") from error
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise RecipeError(f"{file}: {name!r} stands outside of a table")
    return Recipe(file, tables)


def _meant(key: str, known: Iterable[str]) -> str:
    return did_you_mean(key, known) or f"; it takes {', '.join(known)}"


def _frozen(value: Any) -> Any:
    """Lists as tuples, however deep: options do not change."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
