"""Models that appear and disappear, replays from files, results in folders, and growing results."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import re
import shutil
import time
from contextlib import closing
from pathlib import Path

import numpy as np
from octofold_client import Client, Credentials
from octofold_client.evaluation.intervals import average_interval
from octofold_game.episodes import Episode, Episodes
from octofold_game.replays import ReplayWriter
from octofold_game.trajectories import Trajectory
from playwright.sync_api import Page, Route, expect
from support.browsers import PATIENCE_MS, Visit
from support.page_server import ADMIN_TOKEN, TOKEN, Server, Visitor
from support.replays import corner_games, write_games, write_result
from support.servers import write_model
from support.shipped import newest
from support.valued_graphs import valued
from support.waiting import wait_for

SWIFT = f"swift/{newest('swift').name}"


def publish_without_views(models: Path) -> None:
    """Publish a copy of `small` whose graph has other names for the tensors with its views' answers."""
    folder = models / "mute" / "1"
    shutil.copytree(models / "small" / "1", folder)
    card = json.loads((folder / "card.json").read_text())
    card["name"] = "mute"
    for precision in card["precisions"].values():
        graph = folder / precision["file"]
        content = graph.read_bytes()
        for name in (b"view_probabilities", b"legal_scores"):
            content = content.replace(name, b"x" * len(name))
        graph.write_bytes(content)
        precision["sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "card.json").write_text(json.dumps(card))


def unload(server: Server, model: str) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", server.rest_port)) as connection:
        path = f"/v2/repository/models/{model}/unload"
        connection.request("POST", path, body="{}", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
        assert connection.getresponse().status == 200


def test_an_open_page_follows_the_models_of_the_server(go: Visitor, server: Server) -> None:
    models = server.folder / "models"
    with go("/?board=0112033447120a91") as visit:
        select = visit.page.locator("#play-advice select").first
        judge = visit.page.locator("#play-advice select").nth(1)
        expect(select.locator("option")).to_have_count(2)
        publish_without_views(models)
        server.reload()
        expect(select.locator("option")).to_have_count(3)
        expect(select).to_have_value("small/1")
        judge.select_option(SWIFT)
        select.select_option("mute/1")
        note = visit.page.locator("#play-advice .views-box .note").last
        expect(note).to_contain_text(re.compile("[1-8] of mute's 8 views vote (up|right|down|left)"))
        expect(note).to_contain_text("its graph does not output the answers of single views")
        expect(visit.page.locator("#play-advice .view")).to_have_count(0)
        (models / "mute" / "1").rename(models / "mute" / "2")
        card = models / "mute" / "2" / "card.json"
        card.write_text(json.dumps({**json.loads(card.read_text()), "version": 2}))
        server.reload()
        expect(select).to_have_value("mute/2")
        expect(judge).to_have_value(SWIFT)
        expect(visit.page.locator("#live-region")).to_contain_text("mute 1 is no longer served.")
        unload(server, "mute")
        expect(select).to_have_value("small/1")
        expect(select.locator("option")).to_have_count(2)
        expect(visit.page.locator("#play-advice .view")).to_have_count(8)
    shutil.rmtree(models / "mute")


def test_a_loading_model_is_listed_with_its_seconds_and_asked_once_and_old_answers_disappear(
    go: Visitor,
) -> None:
    loading = {"swift": 12.3}

    def about(route: Route) -> None:
        content = route.fetch().json()
        for model in content["models"]:
            if model["name"] in loading:
                model["loading_seconds"] = loading[model["name"]]
        route.fulfill(json=content)

    def answer(route: Route) -> None:
        if loading and "swift" in route.request.url:
            route.fulfill(status=503, json={"error": "swift is loading"})
        else:
            route.continue_()

    def look(page: Page) -> None:
        page.route("**/page/about", about)
        page.route(re.compile("/page/views|/infer"), answer)

    with go("/?board=0112033447120a91", before=look) as visit:
        page = visit.page
        select = page.locator("#play-advice select").first
        verdict = page.locator("#play-advice .verdict")
        expect(page.locator(".view")).to_have_count(8)
        asked = len(visit.requests)
        select.select_option(SWIFT)
        expect(page.locator(".view")).to_have_count(0)
        expect(page.locator("#play-advice .move-row.is-best")).to_have_count(0)
        expect(verdict).to_have_text("swift is loading, 12 s.")
        loading["swift"] = 13.9
        expect(verdict).to_have_text("swift is loading, 13 s.")
        expect(select.locator("option:checked")).to_contain_text("· loading, 13 s")
        assert len([url for url in visit.requests[asked:] if "model=swift" in url or "/swift/" in url]) == 1
        loading.clear()
        expect(verdict).to_contain_text("swift plays")
        page.unroute_all(behavior="wait")


def test_the_value_of_a_network_is_shown_below_its_moves(
    go: Visitor, server: Server, small_model: bytes
) -> None:
    models = server.folder / "models"
    table = np.linspace(0, 4, 17, dtype=np.float32)  # 0.25 per exponent
    graph = valued(small_model, table)
    write_model(models, graph, "valued", symmetries=8, decision_rule="vote", value_unit="points")
    with go("/?board=0112033447120a91") as visit:
        server.reload()
        said = visit.page.locator("#play-advice .legend-line")
        expect(said).not_to_contain_text("value of the board")
        visit.page.locator("#play-advice select").first.select_option("valued/1", timeout=PATIENCE_MS)
        expect(said).to_contain_text("value of the board: 12 (unit: points)")
        unload(server, "valued")
    shutil.rmtree(models / "valued")


def test_a_result_in_a_subfolder_can_be_watched_and_studied(go: Visitor, server: Server) -> None:
    folder = server.results / "monday" / "morning-noon" / "evaluate-first"
    folder.mkdir(parents=True)
    conditions = {"model": "first", "version": "", "precision": "", "sha256": None, "seed": 5}
    (folder / "conditions.json").write_text(json.dumps(conditions))
    episodes = Episodes(5, range(4))
    with ReplayWriter(folder / "games.replay") as writer:
        while len(episodes.running):
            for game in episodes.step(episodes.legal.argmax(axis=1)):
                writer.append(game)
    without_luck = {"values": "v", "sha256": None, "average": 1234.4, "interval": [1000, 1500], "worth": 1.94}
    told = {"games": 4, "without_luck": without_luck, "scores": []}
    (folder / "result.json").write_text(json.dumps(told, indent=2))
    with go("/#watch") as visit:
        card = visit.page.get_by_role("link", name="first")
        expect(card).to_contain_text("monday/morning-noon/evaluate-first")
        card.click()
        expect(visit.page.locator(".facts")).to_contain_text("4")
        expect(visit.page.locator(".facts")).to_contain_text(
            "1,234 (95% interval 1,000 to 1,500), worth 1.9 times the games"
        )
        (folder / "result.json").write_text(json.dumps(told, indent=2).replace("1.94", "1.04"))
        visit.page.reload()
        expect(visit.page.locator(".facts")).to_contain_text("1,234 (95% interval 1,000 to 1,500)")
        expect(visit.page.locator(".facts")).not_to_contain_text("worth")
        visit.page.get_by_text("Look at the finished games").click()
        expect(visit.page.locator("#game-list option")).to_have_count(4)
        visit.page.reload()
        expect(visit.page.locator("#game-list option")).to_have_count(4)


def test_running_games_count_with_what_they_have_reached(go: Visitor, server: Server) -> None:
    folder = server.results / "evaluate-running"
    folder.mkdir(parents=True)
    conditions = {"model": "second", "version": "", "precision": "", "sha256": None, "seed": 5, "games": 16}
    (folder / "conditions.json").write_text(json.dumps(conditions))
    boards = [np.array([exponent, *[0] * 15], np.uint8) for exponent in (11, 10, 10)]
    with ReplayWriter(folder / "games.replay") as writer:
        for game, board in enumerate(boards):
            writer.append(Episode(game, 5, 17, board, bytes(1), 10_000 * (2 - game), board))
    live = {"player": "second", "seed": 5, "games": 16, "updated": 0, "moves_per_second": 100}
    live["finished"] = 2  # a third game has finished since, and is still in the list of running games
    live |= {"running_scores": [30_000] * 14, "running_exponents": [11] * 14}
    live["boards"] = [{"game": 2, "board": [11, *[0] * 15], "score": 30_000, "moves": 1_000}]
    (folder / "live.json").write_text(json.dumps(live))
    later = time.time() + 3600  # in the future, so that a slow page does not find it too old
    os.utime(folder / "live.json", (later, later))
    with go("/#watch/evaluate-running") as visit:
        expect(visit.page.locator(".facts")).to_contain_text("2 of 16")
        row = visit.page.locator(".reached tr", has_text="2048")
        expect(row).to_contain_text(re.compile(r"9[34](\.\d)?\s?%.* to "))
        expect(visit.page.locator(".reached caption")).to_contain_text("of 2 finished and 14 running games")
        expect(visit.page.locator(".facts")).to_contain_text("at least 28,125")
        expect(
            visit.page.get_by_text("The 14 running games count with their scores and tiles so far.")
        ).to_be_visible()


DROP = """({ name, content }) => {
    const files = new DataTransfer();
    files.items.add(new File([Uint8Array.from(atob(content), (each) => each.charCodeAt(0))], name));
    document.getElementById("main").dispatchEvent(
        new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
}"""


def drop(visit: Visit, file: Path) -> None:
    content = base64.b64encode(file.read_bytes()).decode()
    visit.run(DROP, {"name": file.name, "content": content})


def test_a_dropped_replay_is_compared_with_a_model(go: Visitor, server: Server, tmp_path: Path) -> None:
    games = corner_games(6)
    write_games(tmp_path / "games.replay", games)
    worst = min(games, key=lambda game: game.score)
    boards = Trajectory.of(worst).boards.tolist()
    with Client(server.target, credentials=Credentials(token=TOKEN)) as client:
        answers = client.next_moves(np.array(boards[:-1], np.uint8), model="small").moves
    moves = np.frombuffer(worst.moves, np.uint8) & 3
    disputed = np.flatnonzero(answers != moves)
    with go() as visit:
        drop(visit, tmp_path / "games.replay")
        visit.page.get_by_text(f"small would choose another move in {len(disputed)} ").wait_for()
        expect(visit.page.locator("#tab-replay progress")).to_have_css("visibility", "hidden")
        board = "#tab-replay .left .board"
        assert visit.board(board) == boards[-1]  # the final board
        visit.page.keyboard.press("Home")
        assert visit.board(board) == boards[0]
        visit.page.keyboard.press("d")
        expected = next(move for move in disputed.tolist() if move > 0)
        wait_for(lambda: visit.board(board) == boards[expected])
        visit.page.keyboard.press("End")
        wait_for(lambda: visit.board(board) == worst.final_board.tolist())
        visit.page.locator("#game-list").select_option(index=5)
        best = max(games, key=lambda game: game.score)
        wait_for(lambda: visit.board(board) == best.final_board.tolist())


def test_only_the_last_chosen_result_is_shown(go: Visitor, server: Server) -> None:
    write_result(server.results / "slow", corner_games(1))
    write_result(server.results / "fast", corner_games(3))
    with go("/#replay") as visit:
        asked: list[Route] = []
        visit.page.route(
            "**/results/slow/**", lambda route: route.continue_() if asked else asked.append(route)
        )
        with visit.page.expect_request("**/results/slow/**"):
            visit.run("location.hash = '#replay/slow'")
        visit.run("location.hash = '#replay/fast'")
        title = visit.page.locator("#tab-replay .drop h2")
        expect(title).to_have_text("fast")
        with visit.page.expect_event("requestfinished", lambda request: "/results/slow/" in request.url):
            asked[0].continue_()
        visit.settle()
        expect(title).to_have_text("fast")
        expect(visit.page.locator("#game-list option")).to_have_count(3)


def test_a_result_page_asks_for_a_token_only_once(go: Visitor, server: Server) -> None:
    write_result(server.results / "guarded", corner_games(1))
    with go() as visit:
        visit.page.clock.install()
        visit.page.locator("#tab-play .speed input").fill("0")
        visit.run("sessionStorage.setItem('octofold.token', 'revoked')")
        visit.run("location.hash = '#watch/guarded'")
        visit.page.locator("#token-dialog").wait_for()
        visit.page.get_by_role("button", name="Cancel").click()
        expect(visit.page.locator("#tab-watch")).to_contain_text("The server needs a token.")
        asked = len(visit.requests)
        visit.page.clock.run_for(60_000)  # the page would look every second
        visit.settle()
        assert not [url for url in visit.requests[asked:] if "results" in url]


def test_an_evaluation_is_watched_while_it_grows(go: Visitor, server: Server) -> None:
    games = corner_games(12)
    folder = write_result(server.results / "evaluate-corner", games[:6:-1], planned=12)
    running = [{"game": 5, "board": games[5].start.tolist(), "score": 0, "moves": 0}]
    live = {"player": "corner", "seed": 5, "games": 12, "moves_per_second": 900, "running_scores": [0]}
    (folder / "live.json").write_text(json.dumps({**live, "updated": time.time(), "boards": running}))
    later = time.time() + 3600  # in the future, so that a slow page does not find it too old
    os.utime(folder / "live.json", (later, later))
    with go("/#watch") as visit:
        visit.page.get_by_role("link", name="evaluate-corner").click()
        facts = visit.page.locator(".facts")
        expect(facts).to_contain_text("5 of 12")
        expect(visit.page.locator(".live")).to_have_count(1)
        expect(visit.page.locator("#tab-watch")).to_contain_text("Running, 900 moves a second")
        write_games(folder / "sorted", games)  # an evaluation sorts its games at its end
        (folder / "sorted").replace(folder / "games.replay")
        (folder / "live.json").write_text(
            json.dumps({**live, "updated": time.time(), "boards": [], "running_scores": []})
        )
        expect(visit.page.locator("#tab-watch")).to_contain_text("Finished.")
        scores = np.array([game.score for game in games])
        expect(facts).to_contain_text(f"{scores.mean():,.0f}")
        interval = average_interval(scores)
        assert interval is not None
        expect(facts).to_contain_text(f"{interval[0]:,.0f} to {interval[1]:,.0f}")
        expect(visit.page.locator(".live")).to_have_count(0)
        some = visit.page.locator(".some a")
        expect(some).to_have_count(10)
        expect(some.first).to_have_text(f"{scores.min():,}")
        expect(some.nth(5)).to_have_text(f"{scores.max():,}")
        expect(some.first).to_have_attribute("href", f"#replay/evaluate-corner/{scores.argmin()}")
        expect(visit.page.locator(".reached tr")).to_have_count(3)  # one row for 512, which no game reached
        visit.page.get_by_text("Look at the finished games").click()
        expect(visit.page.locator("#game-list option")).to_have_count(12)
        visit.run("location.hash = '#replay/evaluate-corner/7/3'")  # a link to a move
        board = "#tab-replay .left .board"
        wait_for(lambda: visit.board(board) == Trajectory.of(games[7]).boards[3].tolist())
