"""Reads single keys from a terminal without an echo, and restores the terminal afterwards."""

import os
import re
import select
import signal
import termios
import tty
from typing import Self

SUSPEND = "\x1a"
"""The key Ctrl-Z."""

_SEQUENCE = re.compile(rb"\x1b+[\[O][0-9;]*[ -/]*[@-~]|\x1b+[^\x1b]|.", re.DOTALL)
_INCOMPLETE = re.compile(rb"\x1b+([\[O][0-9;]*)?\Z")
"""An escape sequence whose end has not arrived yet."""
_SEQUENCE_TIMEOUT_SECONDS = 0.05
_ARROWS = {b"A": "up", b"B": "down", b"C": "right", b"D": "left"}
_NAMES = {b"\x1b" + kind + letter: name for kind in (b"[", b"O") for letter, name in _ARROWS.items()}
"""Names of the arrow keys by escape sequence. Arrows with Ctrl, Shift or Alt have other sequences."""


class Keyboard:
    """Reads the keys of the terminal with this file descriptor; a context manager.

    Ctrl-C still raises `KeyboardInterrupt`. Ctrl-Z is a key, so that the program can leave the screen before
    it stops.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor)
        settings = termios.tcgetattr(self._descriptor)
        settings[6][termios.VSUSP] = os.fpathconf(self._descriptor, "PC_VDISABLE")
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, settings)
        return self

    def __exit__(self, *_: object) -> None:
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def suspend(self) -> None:
        """Stop this process and its group, as Ctrl-Z does, until the shell continues them."""
        self.__exit__()
        os.kill(0, signal.SIGTSTP)
        self.__enter__()

    def read(self, timeout_seconds: float) -> list[str] | None:
        """Return the keys pressed since the last call, or wait for the next ones.

        Returns an empty list after `timeout_seconds`, and None if the terminal is closed.
        """
        if not select.select([self._descriptor], [], [], timeout_seconds)[0]:
            return []
        try:
            typed = os.read(self._descriptor, 1024)
            while (
                _INCOMPLETE.search(typed)
                and select.select([self._descriptor], [], [], _SEQUENCE_TIMEOUT_SECONDS)[0]
            ):
                typed += os.read(self._descriptor, 1024)
        except OSError:  # on Linux, the other end of the terminal is closed
            return None
        return keys_of(typed) if typed else None


def keys_of(typed: bytes) -> list[str]:
    """Return the name of each key: its character, the direction of an arrow, or `unknown`."""
    return [
        _NAMES.get(key, key.decode("latin-1") if len(key) == 1 else "unknown")
        for key in _SEQUENCE.findall(typed)
    ]
