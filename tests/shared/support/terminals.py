"""Real terminals, for tests of output and keys."""

import codecs
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path

from support.forks import ForkedProcess, forks_of

OCTOFOLD = Path(sys.executable).with_name("octofold")
SECONDS = 100
BEGUN = re.compile(r"\x1b(\[[0-9;?]*)?$")
"""An incomplete control sequence."""
UP, DOWN, RIGHT, LEFT = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"


class Screen:
    """A terminal that runs one of the project's programs."""

    def __init__(
        self,
        *arguments: str | Path,
        program: Path | None = None,
        columns: int = 120,
        lines: int = 40,
        **variables: str,
    ) -> None:
        """Start the program, or `octofold`; `variables` are added to its environment."""
        self.terminal, self.other = pty.openpty()
        ioctl(self.other, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(self.other)
        inherited = {name: os.environ[name] for name in os.environ if name not in ("NO_COLOR", "COLORTERM")}
        environment = {**inherited, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(lines)}
        environment |= variables
        words, streams = [str(argument) for argument in arguments], (self.other, self.other, self.other)
        self.process: ForkedProcess | subprocess.Popen[bytes]
        if program is None:
            self.process = forks_of("octofold").start(words, streams, environment=environment)
        else:
            stdin, stdout, stderr = streams
            self.process = subprocess.Popen(
                [program, *words], stdin=stdin, stdout=stdout, stderr=stderr, env=environment
            )
        self.raw = ""
        """All output, with the terminal's control sequences."""
        self.seen = ""
        """Output since the last match of `shows`, without the control sequences."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.terminal, keys.encode())

    def shows(self, pattern: str) -> re.Match[str]:
        """Wait until the output after the last match shows the pattern."""
        give_up = time.monotonic() + SECONDS
        while (match := re.search(pattern, self.seen)) is None:
            assert time.monotonic() < give_up, self.seen[-3000:]
            self._read()
        self.seen = self.seen[match.end() :]
        return match

    def ends(self, code: int = 0) -> None:
        """Wait until the program ends with this code, and check that the terminal's settings are restored."""
        give_up = time.monotonic() + SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < give_up, self.seen[-3000:]
            self._read()  # a full terminal would stop the program
        while self._read():
            pass
        assert self.process.returncode == code, self.seen[-3000:]
        assert termios.tcgetattr(self.other) == self.before

    def interrupt(self) -> None:
        """Send the byte of Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def hang_up(self) -> int:
        """Close the terminal, wait for the end of the program, and return its exit code."""
        os.close(self.terminal)
        self.terminal = os.open(os.devnull, os.O_RDWR)
        self.process.send_signal(signal.SIGHUP)
        self.process.send_signal(signal.SIGHUP)  # a shell sends a second hang-up signal
        return self.process.wait(SECONDS)

    def close(self) -> None:
        """End the program and close the terminal."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(SECONDS)
        os.close(self.terminal)
        os.close(self.other)

    def _read(self) -> bool:
        if not select.select([self.terminal], [], [], 0.1)[0]:
            return False
        raw = self._decoder.decode(os.read(self.terminal, 65536))  # perhaps half a character
        self.raw += raw
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self._begun + raw)
        begun = BEGUN.search(text)
        self._begun = begun.group() if begun else ""
        self.seen += text.removesuffix(self._begun)
        return True
