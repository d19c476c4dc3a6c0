"""Debian's Chromium, driven by Playwright, and the properties of a page that tests check."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, ViewportSize, expect, sync_playwright

PROGRAMS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
"""Names of Chromium's program. The first one draws no window and takes two thirds of the CPU time of the
others."""
FLAGS = ("--no-sandbox", "--in-process-gpu", "--use-gl=disabled", "--num-raster-threads=1")
"""Flags that save a separate process for drawing: a visit takes a tenth less CPU time and two thirds of the
time. The drawing thread must not load Vulkan, which changes the environment while other threads read it."""
DESKTOP: ViewportSize = {"width": 1600, "height": 1000}
PHONE: ViewportSize = {"width": 360, "height": 740}
TOKEN_KEY = "octofold.token"
PATIENCE_MS = 60_000
"""Timeout of waits, long enough for a busy machine."""

SIZES = {"laptop": (1280, 720), "tablet": (820, 1180), "phone": (390, 844)}
AXE = files("axe_playwright_python") / "axe.min.js"

expect.set_options(timeout=PATIENCE_MS)


def screen(size: str) -> dict[str, Any]:
    """Return the options of a visit with a screen of `SIZES`. All but the laptop have a touch screen."""
    return {"viewport": viewport(size), "has_touch": size != "laptop", "is_mobile": size == "phone"}


def viewport(size: str) -> ViewportSize:
    width, height = SIZES[size]
    return {"width": width, "height": height}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a browser. Skip the test if there is none."""
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium on this machine; `make browser` installs Debian's")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


def board_of(page: Page, within: str) -> list[int]:
    """Return the exponents of a board, as a screen reader hears them."""
    said = re.sub(r"Row \d:", "", page.locator(f"{within} > .said").inner_text())
    words = re.findall(r"\d+|empty", said)
    return [0 if word == "empty" else int(word).bit_length() - 1 for word in words]


@dataclass
class Visit:
    """A visit of the page, with all its requests and errors."""

    page: Page
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def text(self, element: str) -> str:
        """Return the text of the element with an id."""
        return self.page.locator(f"#{element}").inner_text()

    def run(self, script: str, argument: Any = None) -> Any:
        """Return the result of a function of the page."""
        return self.page.evaluate(script, argument)

    def board(self, within: str = "#play-board") -> list[int]:
        """Return the exponents of a board, as a screen reader hears them."""
        return board_of(self.page, within)

    def axe(self) -> list[str]:
        """Return the problems that axe reports: on the page, and on the colors of its other theme."""
        is_dark = self.run("matchMedia('(prefers-color-scheme: dark)').matches")
        lines = self._violations({})
        self.page.emulate_media(color_scheme="light" if is_dark else "dark")
        lines += self._violations({"runOnly": ["color-contrast"]})
        self.page.emulate_media(color_scheme="dark" if is_dark else "light")
        return lines

    def misfits(self, looked_at: Collection[str] = ("phone",)) -> list[str]:
        """Return the screens of `SIZES` for which the page is too wide, and problems that axe finds: on the
        phone, which comes last, in both themes, on others in one."""
        found = []
        self.page.emulate_media(reduced_motion="reduce")  # otherwise, moving tiles would be measured
        for size, (width, _) in SIZES.items():
            self.page.set_viewport_size(viewport(size))
            self.page.emulate_media(color_scheme="dark" if size == "tablet" else "light")
            if self.run("document.documentElement.scrollWidth") > width:
                found.append(f"too wide for a {size}")
            if size in looked_at:
                found += self.axe() if size == "phone" else self._violations({})
        self.page.emulate_media(reduced_motion="no-preference")
        return found

    def _violations(self, options: dict[str, Any]) -> list[str]:
        if not self.run("'axe' in window"):
            self.run(AXE.read_text() + "; undefined")
        found = self.run(
            "(options) => axe.run(document, { resultTypes: ['violations'], ...options })", options
        )
        return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found["violations"]]

    def is_seen(self, element: Locator) -> bool:
        """Return whether the complete element is on the screen."""
        box = element.bounding_box()
        return box is not None and box["y"] >= 0 and box["y"] + box["height"] <= self.run("innerHeight")

    def settle(self) -> None:
        """Let the page finish and draw everything that needs no further answer."""
        self.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")


@contextmanager
def visit(
    browser: Browser,
    address: str,
    token: str | None,
    *,
    path: str = "/",
    before: Callable[[Page], object] = lambda _: None,
    **options: Any,
) -> Iterator[Visit]:
    """Open the page in a new browser context, after `before` has changed the context.

    In every test, the page may call only its own server, must not put the token into an address, and must not
    violate its policy or raise an exception.
    """
    context = browser.new_context(viewport=options.pop("viewport", DESKTOP), **options)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    visited = Visit(page)

    def note(request: Request) -> None:
        visited.requests.append(request.url)

    page.on("request", note)
    page.on("pageerror", lambda error: visited.problems.append(str(error)))
    page.on(
        "console",
        lambda said: visited.problems.append(said.text) if "Security Policy" in said.text else None,
    )
    if token is not None:
        page.add_init_script(f"sessionStorage.setItem({TOKEN_KEY!r}, {token!r})")
    before(page)
    page.goto(address + path)
    if token is not None:
        page.wait_for_selector("body[data-ready]")
    yield visited
    hosts = {urlsplit(url).netloc for url in visited.requests if not url.startswith(("blob:", "data:"))}
    assert hosts == {urlsplit(address).netloc}
    assert not any(token and token in url for url in visited.requests)
    assert visited.problems == []
    context.close()
