"""How long the static site takes to load on a phone, and a move in a browser, of networks and of the search.

    python bench/graph/page.py

Needs Chromium (`make browser`) and the site (`make page`). Prints two tables, each with a JSON line. On a
shared machine only the ratios count.

The phone is Chromium with the network "Fast 4G" of its developer tools, and a processor that is slowed down
four times. The files are not compressed; most hosts send less. Networks are measured in turns: fp32 and int8
graphs in onnxruntime-web.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, sync_playwright

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report

ROOT = Path(__file__).parents[2]
SEARCH = "expectimax"

FAST_4G = {"offline": False, "latency": 165, "downloadThroughput": 1_012_500, "uploadThroughput": 168_750}
"""As in Chromium's developer tools: milliseconds, bytes a second."""
SLOWDOWN = 4
PROGRAM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
PHONE = {"width": 390, "height": 844}
PATIENCE_MS = 120_000

MEASURE = """async ({ models, boards, rounds }) => {
    const { Browser } = await import("/page/js/ask/browser.js");
    const source = new Browser("models.json", { onLoading() {} });
    const found = {};
    for (const model of models) {
        const begin = performance.now();
        await source.infer(model, [boards[0]]);
        found[model.label] = { load_ms: performance.now() - begin, move_ms: [] };
    }
    for (let round = 0; round < rounds; round += 1) {
        for (const model of models) {
            const begin = performance.now();
            for (const board of boards) await source.infer(model, [board]);
            found[model.label].move_ms.push((performance.now() - begin) / boards.length);
        }
    }
    return JSON.stringify(found);
}"""


class _Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # a connection serves several requests, as with any host

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def visited(site: Path) -> Iterator[tuple[Browser, str]]:
    """A browser, and the address of the site."""
    handler = functools.partial(_Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        yield browser, f"http://127.0.0.1:{server.server_port}/"
        browser.close()
        server.shutdown()


def loaded(site: Path) -> dict[str, float]:
    """Seconds on a phone from the address to a board that takes moves, and to the search's first advice."""
    with visited(site) as (browser, address):
        context = browser.new_context(viewport=PHONE, is_mobile=True, has_touch=True)  # type: ignore[arg-type]
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        session.send("Network.emulateNetworkConditions", FAST_4G)
        session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})
        page.goto(address, wait_until="commit")
        found = {}
        for name, selector in (
            ("board", "body[data-ready] .tile"),
            ("advice", "#play-advice .verdict strong"),
        ):
            page.locator(selector).first.wait_for()
            found[name] = page.evaluate("performance.now() / 1000")
        sizes = "performance.getEntriesByType('resource').map((each) => each.transferSize)"
        found["kilobytes"] = sum(page.evaluate(sizes)) / 1000
    return found


def measured(site: Path, models: list[dict[str, Any]], rounds: int) -> dict[str, dict[str, Any]]:
    """The times of each model, in milliseconds."""
    boards = np.random.default_rng(5).integers(0, 11, (40, 16)).tolist()
    with visited(site) as (browser, address):
        page = browser.new_page()
        page.goto(address)
        found = json.loads(page.evaluate(MEASURE, {"models": models, "boards": boards, "rounds": rounds}))
    assert isinstance(found, dict)
    return found


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, default=ROOT / "site", help="the site that `make page` built")
    parser.add_argument("--models", nargs="+", default=["swift", "cnn5", "flagship"])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if not options.site.is_dir():
        raise SystemExit(f"{options.site}: no such folder; run make page")
    with tempfile.TemporaryDirectory() as folder:
        site = Path(shutil.copytree(options.site, Path(folder) / "site"))
        known = {each["name"]: each for each in json.loads((site / "models.json").read_text())["models"]}
        models = [{**known[SEARCH], "label": SEARCH}]
        loads = [loaded(site) for _ in range(options.rounds)]
        for name in options.models:
            newest = max((ROOT / "models" / name).glob("[0-9]*"), key=lambda path: int(path.name))
            for graph in ("model.onnx", "model.int8.onnx"):
                target = site / "models" / name / newest.name / graph
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(newest / graph, target)
                file = str(target.relative_to(site))
                models.append({**known[name], "file": file, "label": file})
        found = measured(site, models, options.rounds)
    middle = {name: float(np.median([each[name] for each in loads])) for name in loads[0]}
    rows = [(f"{middle['board']:.2f}", f"{middle['advice']:.2f}", f"{middle['kilobytes']:.0f}")]
    report("loading on a phone", ("board, s", "first advice, s", "kilobytes"), rows, loads=loads)
    for times in found.values():
        times["move_ms"] = float(np.median(times["move_ms"]))
    rows = [(name, f"{times['load_ms']:.0f}", f"{times['move_ms']:.2f}") for name, times in found.items()]
    report("a move in a browser", ("model", "load, ms", "a move, ms"), rows, models=found)


if __name__ == "__main__":
    main()
