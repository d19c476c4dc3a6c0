"""A browser and a server for the tests of a file.

Playwright runs an event loop while the browser is open, so no asyncio test of another file may come between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from support.browsers import Visit, chromium, visit
from support.page_server import ROOT, TOKEN, Server, Visitor
from support.ports import reserved_port


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def server(
    browser: Browser,  # noqa: ARG001  # without one, no server is needed
    publish_model: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """A server with an untrained model, which loses soon, and a trained one. It requires a token."""
    folder = tmp_path_factory.mktemp("page")
    publish_model(folder / "models")
    (folder / "models" / "swift").symlink_to(ROOT / "models" / "swift")
    with reserved_port() as port, reserved_port() as rest_port:
        running = Server(folder, port, rest_port)
        running.start()
        yield running
        running.stop()


@pytest.fixture
def go(browser: Browser, server: Server) -> Visitor:
    """A function that visits the page, by default with the token."""

    def start(path: str = "/", *, token: str | None = TOKEN, **options: Any) -> AbstractContextManager[Visit]:
        return partial(visit, browser, server.address, token)(path=path, **options)

    return start


@pytest.fixture(scope="module")
def shared_visit(browser: Browser, server: Server) -> Iterator[Visit]:
    """A visit for tests that only run functions of the page and do not change it."""
    with visit(browser, server.address, TOKEN) as shared:
        yield shared
