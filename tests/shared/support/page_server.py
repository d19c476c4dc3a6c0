"""A server with the page, for the tests of the page."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from support.browsers import Visit
from support.forks import ForkedProcess
from support.servers import forked_server

ROOT = Path(__file__).parents[3]
TOKEN = "friend-of-the-house"
ADMIN_TOKEN = "owner-of-the-house"
NOTEBOOK = {
    "format": "octofold-notebook-1",
    "exercises": [
        {"board": "1100000000000000", "better": 3, "unit": "points", "judge": "j", "source": "a test"}
    ],
}
"""A notebook with one exercise, in which the judge plays left."""
SHORT_GAME = "159"
"""The seed with which the untrained model plays the shortest of 400 games."""


class Visitor(Protocol):
    """A function that visits the page."""

    def __call__(
        self, path: str = ..., *, token: str | None = ..., **options: Any
    ) -> AbstractContextManager[Visit]: ...


class Server:
    """A server with the page on fixed ports, so that it can be stopped and restarted."""

    def __init__(self, folder: Path, port: int, rest_port: int) -> None:
        self.folder = folder
        self.results = folder / "results"
        self.results.mkdir()
        (folder / "tokens").write_text(TOKEN)
        (folder / "admin-tokens").write_text(ADMIN_TOKEN)
        self.port, self.rest_port = port, rest_port
        self._process: ForkedProcess | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.rest_port}"

    def add_judge(self) -> None:
        """Add the model `points`: `small` with a card that gives values in points."""
        folder = self.folder / "models" / "points" / "1"
        shutil.copytree(self.folder / "models" / "small" / "1", folder)
        card = json.loads((folder / "card.json").read_text())
        card |= {"name": "points", "temperature": 100_000.0, "decision_rule": "mean"}
        card["description"] = {"answers": {"kind": "afterstate_value"}}
        (folder / "card.json").write_text(json.dumps(card))
        self.reload()

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and wait until the server is ready."""
        file = self.folder / "port"
        file.unlink(missing_ok=True)
        flags = ["--grace", "0", "--default-model", "small", "--precision", "fp32"]
        flags += ["--models", str(self.folder / "models"), "--results", str(self.results)]
        flags += ["--tokens", str(self.folder / "tokens")]
        flags += ["--admin-tokens", str(self.folder / "admin-tokens")]
        flags += ["--port", str(self.port), "--port-file", str(file)]
        flags += ["--rest-port", str(self.rest_port)]
        with (self.folder / "log").open("ab") as log:
            self._process = forked_server(flags, log)
        give_up = time.monotonic() + 100
        while not file.exists():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < give_up, (self.folder / "log").read_text()
            time.sleep(0.02)

    def reload(self) -> None:
        """Make the server read its repository again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    @contextmanager
    def gone(self) -> Iterator[None]:
        """Stop the server for the block, then restart it for later tests, even after an error."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def stop(self) -> None:
        """Stop the server and wait for its end."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(100)
