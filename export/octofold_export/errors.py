"""The errors of an export. Every message fits one line and names the necessary change."""

from __future__ import annotations

from octofold_game.errors import OctofoldError


class ExportError(OctofoldError):
    """The request cannot be fulfilled, for example because of a wrong input or a full disk."""


class WrongUsage(ExportError):
    """The command line asks for something that does not exist."""


class NeedsFlags(ExportError):
    """The description is wrong or incomplete."""

    def __init__(self, message: str, flags: str = "") -> None:
        """Make the error; `flags` describe the network so that it can be published, or are empty."""
        super().__init__(message)
        self.flags = flags


class GateError(ExportError):
    """A graph failed a check and was not published."""


class StrengthNotShown(GateError):
    """The games did not show that a version is strong enough; it was not published."""
