"""The base class of Octofold's errors, and the first line of foreign errors."""

import re

_COLOR = re.compile(r"\x1b\[[0-9;]*m")  # torch writes in colors
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")


class OctofoldError(Exception):
    """A request that cannot be fulfilled; the message says what is wrong and where."""


def first_line(error: BaseException) -> str:
    """The first readable line of the message of an exception, such as torch's or onnxruntime's."""
    lines = [line.strip() for line in _COLOR.sub("", str(error)).splitlines() if line.strip()]
    return _PREFIX.sub("", lines[0]) if lines else type(error).__name__
