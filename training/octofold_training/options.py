"""Options of the trainers: dataclass fields that carry their own line of help and become flags."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import field, fields
from typing import Any


def option(default: Any, help: str, minimum: float = 0) -> Any:
    """A dataclass field with a line of help and the smallest value that makes sense."""
    return field(default=default, metadata={"help": help, "minimum": minimum})


def add_flags(parser: argparse.ArgumentParser, options: type) -> None:
    """Add a flag to `parser` for each number among the fields of the dataclass `options`."""
    for each in fields(options):
        if type(each.default) in (int, float):
            parser.add_argument(
                "--" + each.name.replace("_", "-"),
                type=_number(type(each.default), each.metadata["minimum"]),
                default=each.default,
                help=each.metadata["help"],
            )


def from_flags(options: type, parsed: argparse.Namespace) -> Any:
    """The dataclass `options`, filled from the flags that `add_flags` made."""
    return options(
        **{each.name: getattr(parsed, each.name) for each in fields(options) if each.name in parsed}
    )


def _number(kind: type, minimum: float) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not value >= minimum:
            name = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{text!r} is not {name} from {minimum:g} up")
        return value

    return parse
