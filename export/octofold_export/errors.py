"""What can stop an export. Every message fits one line and says what to change."""

from __future__ import annotations

import re


class ExportError(Exception):
    """Something that was asked for cannot be done: a wrong input, an unknown architecture, a full disk."""


class GateError(ExportError):
    """A graph was built but failed a check, and so was not published."""


def first_line(error: Exception) -> str:
    """What an exception says first that means something to people."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
