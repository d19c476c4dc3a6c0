"""Defines the base class of Octofold's errors, and shortens messages of other libraries."""

import re

_COLOR = re.compile(r"\x1b\[[0-9;]*m")  # torch colors its messages
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")


class OctofoldError(Exception):
    """An error about a request that cannot be fulfilled; the message names the fault and its place."""


def first_line(error: BaseException) -> str:
    """Return the first readable line of an exception's message, such as torch's or onnxruntime's."""
    lines = [line.strip() for line in _COLOR.sub("", str(error)).splitlines() if line.strip()]
    return _PREFIX.sub("", lines[0]) if lines else type(error).__name__
