"""`--json`: one JSON object on standard output, for programs. docs/commands.md describes the objects."""

import json
import sys
from dataclasses import dataclass
from typing import Any, TypeAlias

from octofold_game.commands.options import option

SCHEMA = 1
"""Version of the JSON format; it increases when a field is removed or changes its meaning."""


Files: TypeAlias = dict[str, str | list[str]]
"""Paths of written files, by kind, such as `result` or `pictures`."""


@dataclass(kw_only=True)
class JsonFlag:
    """The flag `--json`."""

    json: bool = option(
        False, "print one JSON object and nothing else on standard output (see docs/commands.md)"
    )


def print_files(content: dict[str, Any], files: Files, as_json: bool) -> None:
    """Print the JSON object `content` with the field `files`; without `as_json`, print only the files."""
    if as_json:
        print_json(content | {"files": files})
        return
    for kind, named in files.items():
        one, each = (kind, [named]) if isinstance(named, str) else (kind.removesuffix("s"), named)
        for file in each:
            print(f"{one + ':':<8} {file}")


def print_json(content: dict[str, Any]) -> None:
    """Print the JSON object `content`. If it has no field `schema`, the field is added at its start."""
    json.dump({"schema": SCHEMA} | content, sys.stdout, indent=2)
    print()
