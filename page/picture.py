"""Makes docs/page.png, the picture in the README: `python page/picture.py` beside a running server."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

BOARD = "0120134315629ba8"


def main() -> None:
    """Take the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="http://127.0.0.1:8000")
    parser.add_argument("--model", default="flagship/3")
    parser.add_argument("--judge", default="cnn5/4")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "page.png")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1240, "height": 850})
        page.goto(f"{options.address}/?board={BOARD}")
        page.wait_for_selector("body[data-ready]")
        choosers = page.locator("#play-advice select")
        choosers.nth(0).select_option(options.model)
        choosers.nth(1).select_option(options.judge)
        page.locator(".view").nth(7).wait_for()
        page.wait_for_timeout(500)
        page.screenshot(path=options.out)
        browser.close()
    # 128 colors are enough for flat areas, and a third of the bytes.
    with Image.open(options.out) as picture:
        small = picture.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    small.save(options.out, optimize=True)


if __name__ == "__main__":
    main()
