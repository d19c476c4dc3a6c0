"""The static site: it plays without a server, with the moves that the served models make."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import build_page
import numpy as np
import onnxruntime
import pytest
from playwright.sync_api import Browser, Error, expect
from support.browsers import visit

ROOT = Path(__file__).parents[2]


class Quiet(SimpleHTTPRequestHandler):
    """Sends files with the policy of the site, which then also holds for its worker."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", build_page.POLICY)
        super().end_headers()


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:  # noqa: ARG001
    """The address of a site with the model swift."""
    if not (build_page.PACKAGE / build_page.RUNTIME[0]).exists():
        pytest.skip("onnxruntime-web is not installed; `make page` installs it")
    folder = tmp_path_factory.mktemp("site") / "site"
    build_page.build(folder, ROOT / "models", ["swift"], 24)
    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


ASK = """async ({ boards, looked }) => {
    const { Browser } = await import("/page/js/ask/browser.js");
    const source = new Browser("models.json", { onLoading() {} });
    const { models: [model] } = await source.about();
    const answers = await source.infer(model, boards);
    const moves = answers.map(({ move }) => move);
    return JSON.stringify({ model, moves, looked: await source.views(model, looked) });
}"""


def test_the_site_plays_without_a_server(browser: Browser, site: str) -> None:
    with visit(browser, site, "") as visited:
        page = visited.page
        page.locator(".view").nth(7).wait_for()
        assert page.locator("[data-tab=watch]").is_hidden()
        page.locator("#tab-play .speed input").fill("5")
        page.get_by_role("button", name="Let the model play").click()
        page.wait_for_function(
            "() => Number(document.getElementById('play-moves').textContent.replace(',', '')) > 20"
        )
        page.get_by_role("button", name="Pause").click()
        expect(page.locator(".verdict").first).to_contain_text("swift plays")


def test_moves_and_views_in_the_browser_are_those_of_onnxruntime(browser: Browser, site: str) -> None:
    boards = np.random.default_rng(7).integers(0, 12, (1000, 16), dtype=np.uint8)
    looked = boards[3].tolist()
    with visit(browser, site, "") as visited:
        found = json.loads(visited.run(ASK, {"boards": boards.tolist(), "looked": looked}))
    graph = ROOT / found["model"]["file"]
    session = onnxruntime.InferenceSession(graph.read_bytes())
    (moves,) = session.run(["move"], {"boards": boards})
    assert found["moves"] == moves.tolist()
    (probabilities,) = session.run(["probabilities"], {"boards": boards[3:4]})
    views = np.array(found["looked"]["views"])
    assert views.shape == (8, 4)
    np.testing.assert_allclose(views.mean(axis=0), probabilities[0], atol=1e-5)


@pytest.mark.parametrize(
    "reply", [{"status": 404}, {"status": 200, "body": "<html>", "content_type": "text/html"}]
)
def test_a_site_without_its_list_of_models_says_so(
    browser: Browser, site: str, reply: dict[str, Any]
) -> None:
    with visit(browser, site, None) as visited:
        visited.page.route("**/models.json", lambda route: route.fulfill(**reply))
        visited.page.reload()
        text = "The list of models, models.json, cannot be read."
        expect(visited.page.locator("#banner")).to_have_text(text)


def test_a_site_without_its_runtime_says_so(browser: Browser, site: str) -> None:
    with visit(browser, site, None) as visited:
        visited.page.route("**/page/ort/*", lambda route: route.abort())
        visited.page.reload()
        visited.page.wait_for_selector("body[data-ready]")
        expect(visited.page.locator(".verdict").first).to_have_text("The networks cannot be loaded.")


def test_a_tile_that_the_model_does_not_know_is_refused(browser: Browser, site: str) -> None:
    with visit(browser, site, "") as visited, pytest.raises(Error, match="swift knows tiles up to 32768"):
        visited.run(ASK, {"boards": [[16, *[0] * 15]], "looked": [1] * 16})


def test_a_folder_of_other_files_does_not_become_a_site(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear reader")
    with pytest.raises(build_page.SiteError, match="holds other files than a site"):
        build_page.build(tmp_path, ROOT / "models", ["swift"], 24)
    assert (tmp_path / "letter.txt").exists()


def test_a_site_needs_a_model(tmp_path: Path) -> None:
    with pytest.raises(build_page.SiteError, match="models has no model swfit"):
        build_page.build(tmp_path / "site", ROOT / "models", ["swfit"], 24)
    with pytest.raises(build_page.SiteError, match="has no model for a page"):
        build_page.build(tmp_path / "site", ROOT / "models", ["swift"], 0)
    assert not (tmp_path / "site").exists()
