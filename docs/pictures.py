"""Makes the pictures of docs/page.md from a running server: `python docs/pictures.py --result NAME`."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

BOARD = "0120134315629ba8"
DOCS = Path(__file__).parent
SIZE = (1280, 720)
COLORS = 160
"""Number of colors in a picture: its flat areas need no more, and the file shrinks to about a third."""
PATIENCE_MS = 120_000


def main() -> None:
    """Take the pictures, and save them in the folder of --out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="http://127.0.0.1:8000")
    parser.add_argument("--model", default="flagship/5")
    parser.add_argument("--judge", default="values/1")
    parser.add_argument("--result", required=True, help="name of the result whose worst game is shown")
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell"), args=["--no-sandbox"]
        )
        with opened(browser, f"{options.address}/?board={BOARD}", options.out / "page.png") as page:
            choosers = page.locator("#play-advice select")
            choosers.nth(0).select_option(options.model)
            choosers.nth(1).select_option(options.judge)
            page.locator(".verdict .agrees, .verdict .differs").first.wait_for()
        address = f"{options.address}/#replay/{options.result}"
        with opened(browser, address, options.out / "page-replay.png") as page:
            page.locator("#tab-replay .pickers select").nth(1).select_option(options.judge)
            page.locator(".worst button").first.wait_for()
            page.wait_for_function(
                "() => document.querySelector('#tab-replay .asking').style.visibility === 'hidden'"
            )
            page.locator(".worst button").first.click()
        with opened(browser, f"{options.address}/#watch", options.out / "page-watch.png") as page:
            page.locator(".ratings tbody tr").first.wait_for()
        browser.close()


@contextmanager
def opened(browser: Browser, address: str, out: Path) -> Iterator[Page]:
    """Open the page at an address, and save a picture of it to `out` when the block ends."""
    page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
    page.set_default_timeout(PATIENCE_MS)
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    yield page
    page.wait_for_timeout(500)
    page.screenshot(path=out)
    page.close()
    with Image.open(out) as picture:
        small = picture.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    small.save(out, optimize=True)


if __name__ == "__main__":
    main()
