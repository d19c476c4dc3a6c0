"""The base class of every error that Octofold raises on purpose, and what those of others say."""

import re

_COLOR = re.compile(r"\x1b\[[0-9;]*m")  # torch writes in colors
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")


class OctofoldError(Exception):
    """What was asked for cannot be done; the message says what is wrong and where, for people."""


def first_line(error: BaseException) -> str:
    """The first readable line of the message of an exception, such as torch's or onnxruntime's."""
    lines = [line.strip() for line in _COLOR.sub("", str(error)).splitlines() if line.strip()]
    return _PREFIX.sub("", lines[0]) if lines else type(error).__name__
