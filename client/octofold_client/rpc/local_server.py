"""Runs `octofold-serve` on a free port, in a process of its own: the client does not import the server."""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

from octofold_client.errors import ServerDied, Unavailable
from octofold_client.rpc.client import Client

START_TIMEOUT_SECONDS = 120.0
"""Timeout for the start of the server. Loading and warming up its models may take long on a busy machine."""
READY_TIMEOUT_SECONDS = 30.0
"""Timeout for the first answer. A server writes its port when it is ready, so it should answer at once."""
STOP_TIMEOUT_SECONDS = 20.0
LOG_LINES = 12


class LocalServer:
    """Runs `octofold-serve` while a block runs; a context manager. In the block, `target` is its address.

    Args:
        models: model repository to serve.
        options: further arguments of `octofold-serve`.
    """

    def __init__(self, models: Path, options: tuple[str, ...] = ()) -> None:
        self._models = models
        self._options = options
        self._folder = tempfile.TemporaryDirectory(prefix="octofold-")
        self._log = Path(self._folder.name) / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.target = ""

    def __enter__(self) -> Self:
        """Start the server and wait until it is ready.

        Raises:
            ServerDied: the server ended, or did not write its port in time.
            Unavailable: the server wrote its port, but did not answer in time.
        """
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def pid(self) -> int | None:
        """Process id of the server; None before it is started."""
        return None if self._process is None else self._process.pid

    def check(self) -> None:
        """Check that the server is running.

        Raises:
            ServerDied: the server has ended; the message includes the last lines of its log.
        """
        if self._process is not None and self._process.poll() is not None:
            raise ServerDied(f"the server ended with exit code {self._process.returncode}{self._log_tail()}")

    def _start(self) -> None:
        port_file = Path(self._folder.name) / "port"
        # The installed command may be missing if PYTHONPATH names the packages. With -P, Python imports no
        # file of the working folder.
        command = [sys.executable, "-P", "-m", "octofold_server.cli", "--host", "127.0.0.1", "--port", "0"]
        command += ["--port-file", str(port_file), "--models", str(self._models), "--grace", "0"]
        command += ["--stop-with-input", *self._options]
        with self._log.open("wb") as log:
            # In a new session, Ctrl-C reaches only this program, which then stops the server. The pipe closes
            # when this program ends, even if it is killed, and the server then stops.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + START_TIMEOUT_SECONDS
        while not port_file.exists():
            self.check()
            if time.monotonic() > end:
                raise ServerDied(
                    f"the server was not ready after {START_TIMEOUT_SECONDS:.0f} s{self._log_tail()}"
                )
            time.sleep(0.02)
        self.target = f"127.0.0.1:{port_file.read_text().strip()}"
        try:
            with Client(self.target) as client:
                client.wait_until_ready(READY_TIMEOUT_SECONDS)
        except Unavailable:
            self.check()  # raises an error with the log if the server has ended
            raise

    def _stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                pass
            finally:  # also after Ctrl-C during the wait
                self._process.kill()
                self._process.wait()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._folder.cleanup()

    def _log_tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        if len(lines) == 1:
            return f": {lines[0]}"
        return ":\n" + "\n".join(f"  {line}" for line in lines) if lines else " and wrote nothing"
