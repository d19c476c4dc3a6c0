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
from numpy.typing import NDArray
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer
from playwright.sync_api import Browser, Error, Page, expect
from support.browsers import SIZES, Visit, screen, viewport, visit
from support.shipped import newest

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
    """The address of a site with the model swift and the search."""
    if not (build_page.PACKAGE / build_page.RUNTIME[0]).exists():
        pytest.skip("onnxruntime-web is not installed; `make page` installs it")
    folder = tmp_path_factory.mktemp("site") / "site"
    build_page.build(folder, ROOT / "models", ["expectimax", "swift"], 24)
    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def shared_visit(browser: Browser, site: str) -> Iterator[Visit]:
    """A visit for the tests that only ask its models."""
    with visit(browser, site, "") as shared:
        yield shared


ASK = """async ({ name, boards, looked }) => {
    const { Browser } = await import("/page/js/ask/browser.js");
    const source = new Browser("models.json", { onLoading() {} });
    const model = (await source.about()).models.find((each) => each.name === name);
    const answers = await source.infer(model, boards);
    return JSON.stringify({ model, answers, looked: await source.views(model, looked) });
}"""


def asked(visited: Visit, name: str, boards: NDArray[np.uint8], looked: int = 0) -> Any:
    """What a model of the site answers."""
    argument = {"name": name, "boards": boards.tolist(), "looked": boards[looked].tolist()}
    return json.loads(visited.run(ASK, argument))


def choose(page: Page, model: str) -> None:
    page.locator("#play-advice select").first.select_option(f"{model}/{newest(model).name}")


def test_the_site_plays_without_a_server_by_a_search_at_once_and_by_networks(
    browser: Browser, site: str
) -> None:
    with visit(browser, site, "") as visited:
        page = visited.page
        verdict = page.locator("#play-advice .verdict")
        expect(verdict).to_contain_text("after a search 4 moves deep")
        assert page.locator("[data-tab=watch]").is_hidden()
        assert not [url for url in visited.requests if url.endswith((".wasm", ".onnx"))]
        preloaded = visited.run(
            "[...document.querySelectorAll('[rel=modulepreload]')].map(({ href }) => href)"
        )
        waited_for = {url for url in visited.requests if url.endswith(".js")} - set(preloaded)
        assert {url.rsplit("/", 1)[-1] for url in preloaded} == {"main.js", "browser.js"}
        assert {url.rsplit("/", 1)[-1] for url in waited_for} == {"expectimax_worker.js"}
        page.locator("#tab-play .speed input").fill("5")
        page.get_by_role("button", name="Let the model play").click()
        moves = "() => Number(document.getElementById('play-moves').textContent.replace(',', ''))"
        page.wait_for_function(f"() => ({moves})() > 20")
        page.get_by_role("button", name="Pause").click()
        choose(page, "swift")
        page.locator(".view").nth(7).wait_for()
        expect(verdict).to_contain_text("swift plays")


def test_every_tab_of_the_site_opens_and_fits_every_screen_and_axe_finds_nothing(
    browser: Browser, site: str
) -> None:
    tabs = {
        "play": "Let the model play",
        "duel": "Let both play",
        "practice": "Notebook",
        "replay": "open a file",
    }
    with visit(browser, site, "", **screen("phone"), reduced_motion="reduce") as visited:
        page = visited.page
        expect(page.locator("#play-advice .verdict")).to_contain_text("after a search")
        for size in SIZES:
            page.set_viewport_size(viewport(size))
            assert visited.is_seen(page.locator("#play-board"))
            assert visited.is_seen(page.get_by_role("button", name="Let the model play"))
        for tab, name in tabs.items():
            page.locator(f"[data-tab={tab}]").click()
            expect(page.locator(f"#tab-{tab}").get_by_text(name, exact=True)).to_be_visible()
            assert visited.misfits() == []
        expect(page.locator("#banner")).to_be_hidden()


def test_moves_and_views_in_the_browser_are_those_of_onnxruntime(shared_visit: Visit) -> None:
    boards = np.random.default_rng(7).integers(0, 12, (300, 16), dtype=np.uint8)
    found = asked(shared_visit, "swift", boards, looked=3)
    graph = ROOT / found["model"]["file"]
    session = onnxruntime.InferenceSession(graph.read_bytes())
    (moves,) = session.run(["move"], {"boards": boards})
    assert [answer["move"] for answer in found["answers"]] == moves.tolist()
    (probabilities,) = session.run(["probabilities"], {"boards": boards[3:4]})
    views = np.array(found["looked"]["views"])
    assert views.shape == (8, 4)
    np.testing.assert_allclose(views.mean(axis=0), probabilities[0], atol=1e-5)


def test_the_search_in_the_browser_is_that_of_the_player(shared_visit: Visit) -> None:
    random = np.random.default_rng(46)
    exponents = np.array([0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 10, 15, 15, 16, 17], np.uint8)
    boards = np.concatenate(
        [
            random.choice(exponents[:13], (40, 16)),
            random.choice(exponents[:16], (30, 16)),
            random.choice(exponents, (20, 16)),
            random.permuted(np.tile(np.arange(1, 17, dtype=np.uint8), (2, 1)), axis=1),
        ]
    )
    found = asked(shared_visit, "expectimax", boards)
    player = HeuristicExpectimaxPlayer(depth=found["model"]["search"]["depth"])
    assert [answer["move"] for answer in found["answers"]] == player.next_moves(boards).tolist()
    values = [
        [-np.inf if value is None else value for value in answer["values"]] for answer in found["answers"]
    ]
    np.testing.assert_array_equal(values, player.action_values(boards))


@pytest.mark.parametrize(
    "reply", [{"status": 404}, {"status": 200, "body": "<html>", "content_type": "text/html"}]
)
def test_a_site_without_its_list_of_models_says_so(
    browser: Browser, site: str, reply: dict[str, Any]
) -> None:
    def lose(page: Page) -> None:
        page.route("**/models.json", lambda route: route.fulfill(**reply))

    with visit(browser, site, None, before=lose) as visited:
        text = "The list of models, models.json, cannot be read."
        expect(visited.page.locator("#banner")).to_have_text(text)


def test_a_site_without_its_runtime_says_so(browser: Browser, site: str) -> None:
    def lose(page: Page) -> None:
        page.route("**/page/ort/*", lambda route: route.abort())

    with visit(browser, site, None, before=lose) as visited:
        visited.page.wait_for_selector("body[data-ready]")
        choose(visited.page, "swift")
        expect(visited.page.locator(".verdict").first).to_have_text("The model cannot be loaded.")
        choose(visited.page, "expectimax")  # which needs no runtime
        expect(visited.page.locator(".verdict").first).to_contain_text("after a search")


def test_a_tile_that_the_model_does_not_know_is_refused(shared_visit: Visit) -> None:
    boards = np.array([[16, *[0] * 15]], np.uint8)
    with pytest.raises(Error, match="swift knows tiles up to 32768"):
        asked(shared_visit, "swift", boards)


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
