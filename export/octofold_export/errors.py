"""What can stop an export. Every message fits one line and says what to change."""

from __future__ import annotations


class ExportError(Exception):
    """Something that was asked for cannot be done: a wrong input, an unknown architecture, a full disk."""


class GateError(ExportError):
    """A graph was built but failed a check, and so was not published."""
