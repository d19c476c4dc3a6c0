"""The errors of an export. Every message has one line and says what to change."""

from __future__ import annotations

from octofold_game.errors import OctofoldError


class ExportError(OctofoldError):
    """The request cannot be fulfilled, for example because of a wrong input or a full disk."""


class WrongUsage(ExportError):
    """The command line names something that does not exist, such as a player."""


class NeedsFlags(ExportError):
    """The description of the network is wrong or incomplete."""

    def __init__(self, message: str, flags: str = "") -> None:
        """Make the error; `flags` are the flags that describe the network, or empty if they are unknown."""
        super().__init__(message)
        self.flags = flags


class GateError(ExportError):
    """A graph failed a check and was not published."""


class StrengthNotShown(GateError):
    """The games did not show that a version is strong enough; it was not published."""
