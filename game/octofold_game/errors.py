"""Defines the base class of Octofold's errors, and shortens messages of other libraries."""

import re

_COLOR = re.compile(r"\x1b\[[0-9;]*m")  # torch colors its messages
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")


class OctofoldError(Exception):
    """The base class of Octofold's errors. The message says what is wrong and where."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without colors and library codes; if empty, its type."""
    lines = [line.strip() for line in _COLOR.sub("", str(error)).splitlines() if line.strip()]
    return _PREFIX.sub("", lines[0]) if lines else type(error).__name__
