"""`--json`: one JSON object on standard output, for programs. docs/commands.md describes the objects."""

import argparse
import json
import sys
from typing import Any

SCHEMA = 1
"""Version of the objects; it grows when a field is removed or changes its meaning."""


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object on standard output and nothing else there (docs/commands.md)",
    )


def print_json(content: dict[str, Any]) -> None:
    """Print the object, with `schema` as its first field unless it has one."""
    json.dump({"schema": SCHEMA} | content, sys.stdout, indent=2)
    print()
