"""Starts `octofold` and `octofold-serve` in milliseconds, as copies (forks) of a process with all imports.

Imports take most of the time of a test that starts a process, and cleaning up modules most of the rest.
Otherwise, a copy behaves like the command: it reads arguments and variables, waits for its threads, calls
exit functions, and flushes its output. Tests of the time before the imports, of missing packages and of
variables that the system reads at the start of a process run the real command.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

NUMBER = struct.Struct("i")
LONGEST_REQUEST = 200_000
SHARED = "SOCKETS_OF_FORKS"
"""The variable that names the folder of the originals' sockets."""
COMMANDS = {"octofold": "octofold_client.cli", "octofold-serve": "octofold_server.cli"}
IMPORTED = {
    "octofold": (
        "octofold_client.cli.command_line",
        "octofold_client.studies.pictures",
        "octofold_players.random_player",
        "octofold_players.expectimax.player",
        "octofold_players.ntuple.player",
    ),
    "octofold-serve": (
        "octofold_server.process.lifecycle",
        "octofold_server.process.supervisor",
        "octofold_server.web.routes",
        "octofold_server.http_transport.guard",
        "octofold_server.grpc_transport.direct",
        "octofold_server.grpc_transport.native",
        "octofold_server.http_transport.server",
        "octofold_players.expectimax.player",
        "octofold_players.ntuple.player",
        "octofold_players.perimeter.player",
    ),
}


class ForkedProcess:
    """A forked copy of a command, with the methods of `subprocess.Popen`."""

    def __init__(self, news: int) -> None:
        self._news = news  # a pipe: the process's id, and its wait status once it has ended
        self._status: int | None = None
        self.pid = self._number()

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        if self._status is None and select.select([self._news], [], [], 0)[0]:
            self._take_status()
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        if self._status is None:
            if not select.select([self._news], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            self._take_status()
        assert self._status is not None
        return self._status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _take_status(self) -> None:
        self._status = os.waitstatus_to_exitcode(self._number())
        os.close(self._news)

    def _number(self) -> int:
        words = os.read(self._news, NUMBER.size)
        assert words, "the process that makes copies has ended"
        return int(*NUMBER.unpack(words))


class Forks:
    """A starter of copies of a process that has imported a command."""

    def __init__(self, folder: Path, command: str) -> None:
        self._requests = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.connect(str(folder / command))
        atexit.register(self._requests.close)

    def start(
        self,
        arguments: Sequence[str],
        streams: tuple[int, int, int],
        *,
        program: str = "",
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ForkedProcess:
        """Run the command, or the Python file `program`, with these descriptors for input, output, errors."""
        news, theirs = os.pipe()
        variables = dict(os.environ if environment is None else environment)
        request = json.dumps([program, list(arguments), str(folder or Path.cwd()), variables])
        socket.send_fds(self._requests, [request.encode()], [*streams, theirs])
        os.close(theirs)
        return ForkedProcess(news)


@cache
def forks_of(command: str) -> Forks:
    """Return the starter of copies of a command, which all tests share."""
    return Forks(Path(os.environ.get(SHARED) or share_originals()), command)


def share_originals() -> str:
    """Offer copies to this process and its children; return the folder of the sockets.

    The imports of a command happen before its first copy.
    """
    folder = os.environ[SHARED] = tempfile.mkdtemp(prefix="octofold-", dir="/tmp")  # a short path
    end, ours = os.pipe()  # the system closes it at the end of this process
    processes = []
    for command in COMMANDS:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
            asked.bind(f"{folder}/{command}")
            asked.listen()
            passed = [asked.fileno(), end]
            program = [sys.executable, "-P", __file__, command, *map(str, passed)]  # -P: no imports from here
            processes.append(subprocess.Popen(program, stdin=subprocess.DEVNULL, pass_fds=passed))
    os.close(end)

    def close() -> None:
        os.close(ours)
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()

    atexit.register(close)
    return folder


class _Original:
    """The process that forks copies of itself."""

    def __init__(self, asked: socket.socket, end: int, command: str) -> None:
        self._asked, self._end, self._command = asked, end, command
        # By process id of a copy: the pipe for its wait status, and the socket that requested it. SIGCHLD may
        # change it.
        self._copies: dict[int, tuple[int, socket.socket]] = {}
        self._askers: set[socket.socket] = set()

    def make_copies(self) -> None:
        """Make copies until the first process of the tests has ended. A copy does not return from here."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest
        signal.signal(signal.SIGCHLD, self._tell_who_ended)
        imported = False
        while True:
            sources: list[int | socket.socket] = [self._end, self._asked, *self._askers]
            for source in select.select(sources, [], [])[0]:
                if isinstance(source, int):
                    self._kill()
                    return
                if source is self._asked:
                    self._askers.add(self._asked.accept()[0])
                    if not imported:
                        _import(self._command)
                        imported = True
                else:
                    self._answer(source)

    def _answer(self, asker: socket.socket) -> None:
        request, descriptors, _, _ = socket.recv_fds(asker, LONGEST_REQUEST, 4)
        if not request:
            self._askers.remove(asker)
            self._kill(asker)  # copies of failed tests
            asker.close()
            return
        *streams, news = descriptors
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            for listener in (self._asked, *self._askers):
                listener.detach()
            os.closerange(3, 1024)
            _run(self._command, *json.loads(request))
        for stream in streams:
            os.close(stream)
        with suppress(BrokenPipeError):  # the requesting process has ended meanwhile
            os.write(news, NUMBER.pack(pid))
        self._copies[pid] = news, asker
        self._tell_who_ended()

    def _kill(self, of: socket.socket | None = None) -> None:
        for pid, (_, asker) in list(self._copies.items()):
            if of in (None, asker):
                with suppress(ProcessLookupError):  # it has ended meanwhile
                    os.kill(pid, signal.SIGKILL)

    def _tell_who_ended(self, *_: object) -> None:
        for pid in list(self._copies):
            with suppress(ChildProcessError):  # a signal handler has already reported it
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    status_pipe = self._copies.pop(pid)[0]
                    with suppress(BrokenPipeError):
                        os.write(status_pipe, NUMBER.pack(status))
                    os.close(status_pipe)


def _import(command: str) -> None:
    from numba.core.registry import cpu_target

    for module in (COMMANDS[command], *IMPORTED[command]):
        importlib.import_module(module)
    for context in (cpu_target.typing_context, cpu_target.target_context):
        context.refresh()  # as the first call of a compiled function would
    gc.freeze()  # frozen objects stay in shared memory


def _run(
    command: str, program: str, arguments: list[str], folder: str, environment: dict[str, str]
) -> NoReturn:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.argv = [program or command, *arguments]
    if command == "octofold":  # its streams may be terminals
        encoding = environment.get("PYTHONIOENCODING")
        sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", 1 if os.isatty(1) else -1, encoding, closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", 1, encoding, "backslashreplace", closefd=False)  # noqa: SIM115
    try:
        if program:
            runpy.run_path(program, run_name="__main__")
            sys.exit()
        sys.exit(importlib.import_module(COMMANDS[command]).main())
    except SystemExit as ended:
        _end(ended.code)
        raise


def _end(code: object) -> None:
    """End the process like an interpreter, but without cleaning up modules, if the exit code is a number."""
    if isinstance(code, int | None):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    _, command, asked, end = sys.argv
    _Original(socket.socket(fileno=int(asked)), int(end), command).make_copies()
    shutil.rmtree(os.environ[SHARED], ignore_errors=True)
