"""The errors of an export. Every message fits one line and names the necessary change."""

from __future__ import annotations

import re

from octofold_game.errors import OctofoldError


class ExportError(OctofoldError):
    """The request cannot be fulfilled, for example because of a wrong input or a full disk."""


class WrongUsage(ExportError):
    """The command line asks for something that does not exist."""


class GateError(ExportError):
    """A graph failed a check and was not published."""


class NotShown(GateError):
    """The games did not show that a version is strong enough; it was not published."""


def first_line(error: BaseException) -> str:
    """The first readable line of an exception's message."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))  # torch writes in colors
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
