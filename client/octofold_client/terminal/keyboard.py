"""Reads single keys from a terminal without an echo, and restores the terminal afterwards."""

import os
import re
import select
import termios
import tty
from typing import Self

_SEQUENCE = re.compile(rb"\x1b[\[O]([A-Z]|[0-9]+~)|.", re.DOTALL)
_NAMES = {b"A": "up", b"B": "down", b"C": "right", b"D": "left"}


class Keyboard:
    """Reads the keys of the terminal with this file descriptor while the block runs.

    Ctrl-C still raises `KeyboardInterrupt`.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor)
        return self

    def __exit__(self, *_: object) -> None:
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def read(self, timeout_seconds: float) -> list[str] | None:
        """The keys pressed since the last call, or the next ones.

        Returns an empty list after `timeout_seconds`, and None if the terminal is closed.
        """
        if not select.select([self._descriptor], [], [], timeout_seconds)[0]:
            return []
        try:
            typed = os.read(self._descriptor, 1024)
        except OSError:  # on Linux: the other end of the terminal is closed
            return None
        return keys_of(typed) if typed else None


def keys_of(typed: bytes) -> list[str]:
    """The names of keys: a character for itself, a word for an arrow, `unknown` for other special keys."""
    return [
        _NAMES.get(match[1], "unknown") if match[1] else match[0].decode("latin-1")
        for match in _SEQUENCE.finditer(typed)
    ]
