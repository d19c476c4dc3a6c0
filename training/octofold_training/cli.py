"""`octofold-train`: says in one line what to install where the extra that it needs is missing."""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> int:
    """Run `octofold_training.commands.main` and return its exit code."""
    try:
        from octofold_training import commands
    except ModuleNotFoundError as error:
        remedy = "install the extra octofold[training]"
        print(f"octofold-train: {error.name} is not installed; {remedy}", file=sys.stderr)
        return 1
    return commands.main(arguments)
