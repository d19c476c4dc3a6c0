"""Runs `octofold` in separate processes that start in milliseconds (`support.forks`).

Tests of what happens at exit or before the imports, and of missing packages, start the installed command.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from support.forks import forks_of


class Command:
    """A running `octofold`. It has the methods of `subprocess.Popen`."""

    def __init__(
        self,
        *arguments: str | Path,
        folder: Path | None = None,
        stdin: str = "",
        packages: Path | None = None,
    ) -> None:
        """Start octofold in `folder`, with packages from another folder."""
        self.arguments = [str(argument) for argument in arguments]
        environment = dict(os.environ) | ({"PYTHONPATH": str(packages)} if packages else {})
        self._streams = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(3)]  # noqa: SIM115
        self._streams[0].write(stdin)
        self._streams[0].seek(0)
        given, output, errors = (stream.fileno() for stream in self._streams)
        process = forks_of("octofold").start(
            self.arguments, (given, output, errors), folder=folder, environment=environment
        )
        self.pid, self.poll, self.wait = process.pid, process.poll, process.wait
        self.send_signal, self.kill = process.send_signal, process.kill

    @property
    def returncode(self) -> int | None:
        return self.poll()

    @property
    def errors(self) -> str:
        """The standard error so far."""
        return self._read(2).decode(errors="replace")  # the text may end in the middle of a character

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end of the process. Return its standard output and standard error."""
        self.wait(timeout)
        written = self._read(1).decode(), self._read(2).decode()
        self.close()
        return written

    def close(self) -> None:
        """End the process if it is running, and discard its output."""
        self.kill()
        self.wait()
        for stream in self._streams:
            stream.close()

    def _read(self, number: int) -> bytes:
        size = os.fstat(self._streams[number].fileno()).st_size
        return os.pread(self._streams[number].fileno(), size, 0)


def octofold(
    *arguments: str | Path,
    folder: Path | None = None,
    stdin: str = "",
    timeout: float = 100,
    packages: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command in this folder, with packages from another folder, and return its result.

    Raises:
        subprocess.TimeoutExpired: It took longer.
    """
    command = Command(*arguments, folder=folder, stdin=stdin, packages=packages)
    try:
        code = command.wait(timeout)
        return subprocess.CompletedProcess(command.arguments, code, *command.communicate())
    finally:
        command.close()


def failure(*arguments: str | Path, folder: Path | None = None, stdin: str = "", code: int = 1) -> str:
    """Return the error line of a command, without its name and the hint at its help."""
    done = octofold(*arguments, folder=folder, stdin=stdin)
    assert (done.returncode, done.stdout) == (code, ""), done
    (line,) = done.stderr.splitlines()
    name = "octofold" if code == 1 else f"octofold {arguments[0]}"
    assert line.startswith(f"{name}: ")
    return line.removeprefix(f"{name}: ").removesuffix(f" (see {name} --help)")
