"""How long a move takes in a browser: fp32 and int8 graphs of shipped networks in onnxruntime-web, in turns.

    python bench/graph/page.py

Needs Chromium (`make browser`) and onnxruntime-web (`make page`). Prints a table, then one JSON line. On a
shared machine only the ratios count.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import sys
import tempfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report

ROOT = Path(__file__).parents[2]

MEASURE = """async ({ files, boards, rounds }) => {
    const { Browser } = await import("/page/js/ask/browser.js");
    const source = new Browser("models.json", { onLoading() {} });
    const found = {};
    for (const file of files) {
        const begin = performance.now();
        await source.infer({ file, temperature: 300 }, [boards[0]]);
        found[file] = { load_ms: performance.now() - begin, move_ms: [] };
    }
    for (let round = 0; round < rounds; round += 1) {
        for (const file of files) {
            const begin = performance.now();
            for (const board of boards) await source.infer({ file, temperature: 300 }, [board]);
            found[file].move_ms.push((performance.now() - begin) / boards.length);
        }
    }
    return JSON.stringify(found);
}"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


def measured(site: Path, files: list[str], rounds: int) -> dict[str, dict[str, Any]]:
    """The times of each file, in milliseconds."""
    boards = np.random.default_rng(5).integers(0, 11, (40, 16)).tolist()
    handler = functools.partial(_Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        found = json.loads(page.evaluate(MEASURE, {"files": files, "boards": boards, "rounds": rounds}))
        browser.close()
        server.shutdown()
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
        files = []
        for name in options.models:
            newest = max((ROOT / "models" / name).glob("[0-9]*"), key=lambda path: int(path.name))
            for graph in ("model.onnx", "model.int8.onnx"):
                target = site / "models" / name / newest.name / graph
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(newest / graph, target)
                files.append(str(target.relative_to(site)))
        found = measured(site, files, options.rounds)
    for times in found.values():
        times["move_ms"] = float(np.median(times["move_ms"]))
    rows = [(file, f"{times['load_ms']:.0f}", f"{times['move_ms']:.2f}") for file, times in found.items()]
    report("a move in a browser", ("graph", "load, ms", "a move, ms"), rows, graphs=found)


if __name__ == "__main__":
    main()
