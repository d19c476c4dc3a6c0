"""The kinds of values that options take: how their text is parsed, and how the help describes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octofold_server.config.policies import parse_canary, parse_policies

NO_KINDS = "none"

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,63}", re.ASCII)
"""As in the card of a player."""


@dataclass(frozen=True)
class Kind:
    """A kind of value."""

    parse: Callable[[str], Any]
    """Parses a text, or raises ValueError if the value is not allowed."""
    allowed: str
    """Describes the allowed values."""
    placeholder: str
    """Stands for the value in the help."""
    is_plain: bool = False
    """Whether the help does not need `allowed`."""


def integer(lowest: int, highest: int) -> Kind:
    """Whole numbers between two bounds, which are allowed."""

    def parse(text: str) -> int:
        value = int(text)
        if not lowest <= value <= highest:
            raise ValueError
        return value

    return Kind(parse, f"an integer from {lowest} to {highest}", "N")


def one_of(*choices: str) -> Kind:
    """One of these words."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError
        return text

    allowed = ", ".join(choices[:-1]) + f" or {choices[-1]}"
    return Kind(parse, allowed, "|".join(choices), is_plain=True)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 86_400:
        raise ValueError
    return value


def _positive_seconds(text: str) -> float:
    value = _seconds(text)
    if not value:
        raise ValueError
    return value


def _switch(text: str) -> bool:
    return {"1": True, "true": True, "0": False, "false": False}[text.lower()]


def _text(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _kinds(text: str) -> tuple[str, ...]:
    if text == NO_KINDS:
        return ()
    kinds = tuple(text.split(","))
    if not all(map(_KIND.fullmatch, kinds)):
        raise ValueError
    return kinds


def _path(text: str) -> Path:
    return Path(_text(text))


POLICIES = Kind(
    parse_policies,
    "all, latest:N, or versions such as 1,3; then ;MODEL=... for each model with another rule",
    "RULE",
)
CANARY = Kind(parse_canary, "a version and a share from 0 to 1, such as 3=0.05", "VERSION=SHARE")
KINDS = Kind(_kinds, "names of kinds with commas between them, or none", "KIND,...")
TEXT = Kind(_text, "a name", "NAME", is_plain=True)
TEXT_OR_NONE = Kind(str, "a name, or empty for none", "NAME", is_plain=True)
PATH = Kind(_path, "a path", "PATH", is_plain=True)
SECONDS = Kind(_seconds, "a number of seconds from 0 to 86400", "SECONDS")
POSITIVE_SECONDS = Kind(_positive_seconds, "a number of seconds above 0, at most 86400", "SECONDS")
SWITCH = Kind(_switch, "true, false, 1 or 0", "", is_plain=True)
