"""Supervises several processes that serve one port: starts them, restarts dead processes, forwards signals.

Several processes use more cores than one, because Python runs one thread of a process at a time. The kernel
spreads connections, not calls, over the processes.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from octofold_server.config.options import Config
from octofold_server.process.shared_service import ProcessSlot
from octofold_server.process.writable_paths import check_writable_paths
from octofold_server.system.logs import set_up_log
from octofold_server.system.signals import Signals, hangups_held
from octofold_server.system.sockets import hold_port, port_written, socket_folder

CHECK_SECONDS = 0.2
RESTART_SECONDS = 1.0
"""Pause before a process is restarted, so that a process that always fails does not use all CPU time."""
LAST_SECONDS = 30.0
"""Time limit for a process to end after --grace and --drain have passed."""

Run = Callable[[Config, ProcessSlot], int]
"""A function that serves in a process, and returns the exit code."""

_log = logging.getLogger(__name__)
_spawning = multiprocessing.get_context("spawn")  # a forked child would inherit held locks


def serve_together(config: Config, run: Run) -> int:
    """Serve with `config.processes` processes until SIGTERM or SIGINT, and return the exit code.

    Each process calls `run` with its configuration and its slot.

    Raises:
        StartupError: the server cannot listen on the address, or a port file, the ready file or the folder of
            the processes cannot be written.
    """
    check_writable_paths(config)  # the processes cannot check these paths: each has its own port file
    with ExitStack() as ending:
        port = ending.enter_context(hold_port(config.host, config.port))
        rest_port = config.rest_port
        if rest_port is not None:
            rest_port = ending.enter_context(hold_port(config.host, rest_port))
        folder = ending.enter_context(socket_folder())
        shared = replace(config, port=port, rest_port=rest_port, rest_port_file=None)
        processes = _Processes(shared, folder, run)
        signals = Signals(lambda: processes.signal(signal.SIGHUP))
        ending.callback(processes.kill)
        if not processes.start(signals):
            return processes.end(signals)
        if rest_port is not None:
            ending.enter_context(port_written(config.rest_port_file, rest_port))
        with port_written(config.port_file, port):
            _log.info("%d processes are serving on port %d", config.processes, port)
            while not signals.wait(CHECK_SECONDS):
                processes.restart_dead()
        return processes.end(signals)


class _Processes:
    """The processes that serve.

    Args:
        config: the configuration of each process, except for its port file.
        folder: a folder that only these processes use.
        run: called in each process, with its slot.
    """

    def __init__(self, config: Config, folder: Path, run: Run) -> None:
        self._config = config
        self._folder = folder
        self._run = run
        self._members: list[Any] = []  # the processes, in order of their numbers
        self._restart_at: dict[int, float] = {}  # time to restart a dead process, by its number
        self._failed = False

    def start(self, signals: Signals) -> bool:
        """Start the processes one after the other, each when the previous one is ready.

        If a process ends or a signal comes, no further one starts, and the result is False. An error at
        the start is thus logged only once.
        """
        for number in range(self._config.processes):
            self._members.append(self._new(number))
            while not self._port_file(number).exists():
                if signals.wait(CHECK_SECONDS):
                    return False
                if not self._members[number].is_alive():
                    self._failed = True
                    return False
        return True

    def restart_dead(self) -> None:
        """Restart dead processes, each after a pause."""
        now = time.monotonic()
        for number, member in enumerate(self._members):
            if member.is_alive():
                continue
            if number not in self._restart_at:
                _log.error("process %d ended with exit code %s; restarting it", number, member.exitcode)
                self._restart_at[number] = now + RESTART_SECONDS
            elif now >= self._restart_at[number]:
                del self._restart_at[number]
                self._members[number] = self._new(number)

    def signal(self, number: int) -> None:
        """Send a signal to all processes."""
        for member in self._members:
            if member.is_alive():
                os.kill(member.pid, number)

    def end(self, signals: Signals) -> int:
        """Stop all processes by SIGTERM, forward further signals while they end, and return the exit code."""
        self._terminate()
        end = time.monotonic() + self._config.grace + self._config.drain + LAST_SECONDS
        while any(member.is_alive() for member in self._members) and time.monotonic() < end:
            if signals.wait(CHECK_SECONDS):
                self._terminate()
        success = (0, -signal.SIGTERM)  # -SIGTERM is the exit code of a process that did not serve yet
        ended = [member for number, member in enumerate(self._members) if number not in self._restart_at]
        return int(self._failed or any(member.exitcode not in success for member in ended))

    def _terminate(self) -> None:
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a suspended process has calls to finish, too

    def kill(self) -> None:
        """Kill the processes that have not ended."""
        for member in self._members:
            member.kill()
            member.join()

    def _new(self, number: int) -> Any:
        config = replace(self._config, port_file=self._port_file(number))
        joins = any(member.is_alive() for member in self._members)
        slot = ProcessSlot(self._folder, number, self._config.processes, joins)
        member = _spawning.Process(target=_serve, args=(self._run, config, slot), name=f"process-{number}")
        with hangups_held():
            member.start()
        return member

    def _port_file(self, number: int) -> Path:
        return self._folder / f"{number}.port"


def _serve(run: Run, config: Config, slot: ProcessSlot) -> None:
    set_up_log(config.log_format, config.log_level)
    os.setsid()  # only the parent process receives Ctrl-C, and forwards it
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    raise SystemExit(run(config, slot))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
