"""The page in a real browser: play, hints, autoplay, tokens, a server that restarts, phones."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client import Client, Credentials
from octofold_client.evaluation.intervals import (
    average_interval,
    difference_interval,
    share_interval,
    student,
)
from octofold_game.episodes import Episodes
from octofold_game.rules import MOVE_NAMES, legal_moves, slide
from octofold_game.symmetries import CELLS, MOVES
from playwright.sync_api import Route, expect
from support.browsers import Visit
from support.page_server import TOKEN, Server, Visitor
from support.shipped import newest
from support.waiting import wait_for

KEYS = ("ArrowUp", "ArrowRight", "ArrowDown", "ArrowLeft")
MIDGAME = "0112033447120a91"


TILES = """() => {
    const board = new Array(16).fill(0);
    for (const { style, textContent } of document.querySelectorAll("#play-board .tile")) {
        const [x, y] = ["--x", "--y"].map((name) => Number(style.getPropertyValue(name)));
        board[4 * y + x] += Math.log2(textContent);
    }
    return board;
}"""
"""JavaScript that reads the board from the positions of its tiles; two tiles in a cell add up."""


def number(visit: Visit, element: str) -> int:
    return int(visit.text(element).replace(",", ""))


def set_speed(visit: Visit, tab: str, speed: int) -> None:
    visit.page.locator(f"#tab-{tab} .speed input").fill(str(speed))


def test_a_game_by_keys_is_the_game_of_its_seed(go: Visitor) -> None:
    with go() as visit:
        visit.page.keyboard.press("n")  # a new game in place of the board of a first visit
        episodes = Episodes(number(visit, "play-seed"), [0])
        assert visit.board() == episodes.boards[0].tolist()
        for step in range(8):
            move = next(move for move in (3, 2, 1, 0) if episodes.legal[0, move])
            unchanged = visit.board()
            illegal = [each for each in range(4) if not episodes.legal[0, each]]
            if illegal and step % 3 == 0:
                visit.page.keyboard.press(KEYS[illegal[0]])
                assert visit.board() == unchanged
            visit.page.keyboard.press(KEYS[move])
            episodes.step([move])
            assert visit.board() == episodes.boards[0].tolist()
            if step % 4 == 0:
                wait_for(lambda: visit.run(TILES) == visit.board())  # after the animation
            assert number(visit, "play-score") == episodes.scores[0]
        assert MOVE_NAMES[move] in visit.text("live-region")
        score = number(visit, "play-score")
        visit.page.keyboard.press("u")
        assert number(visit, "play-moves") == 7
        assert number(visit, "play-best") == score  # the best stays


def test_a_link_to_a_board_is_copied_keeps_the_game_and_sets_no_best_score(go: Visitor) -> None:
    with go(permissions=["clipboard-read", "clipboard-write"]) as visit:
        visit.page.keyboard.press("n")  # a new game: the board of a first visit may be lost in a few moves
        for key in KEYS * 4:
            visit.page.keyboard.press(key)
        board, score, best = visit.board(), visit.text("play-score"), visit.text("play-best")
        visit.page.locator("#play-link").click()
        expect(visit.page.locator("#live-region")).to_have_text("Link copied")
        address = visit.run("navigator.clipboard.readText()")
        assert address == f"{visit.page.url}?board={''.join(f'{exponent:x}' for exponent in board)}"
        visit.page.goto(visit.page.url.split("?")[0] + "?board=gg00000000000000")
        visit.page.wait_for_selector("body[data-ready]")
        assert visit.board() == [16, 16] + [0] * 14
        visit.page.goto(visit.page.url.split("?")[0])
        visit.page.wait_for_selector("body[data-ready]")
        assert (visit.board(), visit.text("play-score"), visit.text("play-best")) == (board, score, best)
        visit.page.goto(visit.page.url.split("?")[0] + "?board=gg00000000000000")
        visit.page.wait_for_selector("body[data-ready]")
        visit.page.keyboard.press("ArrowLeft")
        assert number(visit, "play-score") == 131_072
        assert visit.text("play-best") == best


def test_the_page_works_in_a_browser_that_stores_nothing(go: Visitor) -> None:
    blocked = """for (const name of ["localStorage", "sessionStorage"])
        Object.defineProperty(window, name, { get() { throw new DOMException("denied"); } });"""
    with go(token=None, before=lambda page: page.add_init_script(blocked)) as visit:
        visit.page.locator("#token-dialog input").fill(TOKEN)
        visit.page.keyboard.press("Enter")
        visit.page.wait_for_selector("body[data-ready]")
        for key in KEYS:  # at least one of these moves is legal
            visit.page.keyboard.press(key)
        wait_for(lambda: number(visit, "play-moves") > 0)


def test_a_board_in_the_address_gets_a_hint_and_a_judges_opinion(go: Visitor, server: Server) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", server.rest_port)) as connection:
        connection.request(
            "GET", f"/move?board={MIDGAME}&model=swift", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        move = connection.getresponse().read().decode().strip()
    with go(f"/?board={MIDGAME}") as visit:
        assert visit.board() == [int(digit, 16) for digit in MIDGAME]
        model, judge = (visit.page.locator("#play-advice select").nth(number) for number in (0, 1))
        judge.select_option(f"swift/{newest('swift').name}")
        visit.page.locator(".verdict .agrees, .verdict .differs").wait_for()
        assert visit.page.locator(".has-judge").count() == 1
        offered = judge.locator("option").all_inner_texts()
        assert not any(text.startswith("small") for text in offered)  # nobody judges himself
        visit.page.locator(".view").nth(7).wait_for()
        votes = visit.page.locator(".move-row.is-best .mark").inner_text()
        agreeing = visit.page.locator(".view.agrees").count()
        assert votes.startswith(f"{agreeing} of 8")
        model.select_option(f"swift/{newest('swift').name}")
        visit.page.keyboard.press("h")
        visit.page.locator(f"#play-stage .arrow-on-board.toward-{move}").wait_for()
        assert f"swift plays {move}" in visit.text("live-region")
        visit.page.locator(".view").nth(7).wait_for()
        for symmetry, cells in enumerate(CELLS):
            texts = visit.page.locator(f".view:nth-child({symmetry + 1}) .small-cell").all_inner_texts()
            seen = [int(text).bit_length() - 1 if text else 0 for text in texts]
            assert seen == np.array(visit.board())[cells].tolist()


def test_autoplay_plays_to_the_end_and_leads_to_the_study_of_the_lost_game(go: Visitor) -> None:
    with go("/?board=1212212112120000") as visit:
        set_speed(visit, "play", 5)
        visit.page.keyboard.press("Space")
        visit.page.locator("#play-over").wait_for()
        assert not legal_moves([visit.board()]).any()
        assert number(visit, "play-best") == 0  # a model's score does not count as the best
        moves = number(visit, "play-moves")
        visit.page.get_by_role("button", name="Study", exact=True).click()
        expect(visit.page.locator("#tab-replay h2").first).to_have_text("Your game")
        expect(visit.page.locator("#tab-replay .left .scores")).to_contain_text(f"{moves:,} of {moves:,}")
        visit.page.locator("nav [data-tab=play]").click()
        visit.page.get_by_role("button", name="See why").click()
        expect(visit.page.locator("#tab-replay h2").first).to_have_text("Your game")
        expect(visit.page.locator("#tab-replay .verdict.short")).to_contain_text("No move is left")
        expect(visit.page.locator("#tab-replay .accuracy")).to_contain_text("accuracy")


def test_an_answer_for_an_earlier_board_is_not_played(go: Visitor) -> None:
    with go("/?board=0000000000000110") as visit:
        asked: list[Route] = []
        visit.page.route("**/infer", lambda route: asked.append(route))
        set_speed(visit, "play", 0)
        with visit.page.expect_request("**/infer"):
            visit.page.get_by_role("button", name="One step").click()
        visit.page.keyboard.press("ArrowLeft")
        with visit.page.expect_event("requestfinished", lambda request: request.url.endswith("/infer")):
            asked[0].continue_()
        visit.settle()
        assert number(visit, "play-moves") == 1


def test_at_full_speed_the_views_are_hidden_with_a_message_and_return(go: Visitor) -> None:
    with go(f"/?board={MIDGAME}") as visit:
        answered: list[Route] = []
        held: list[Route] = []

        def answer_once(route: Route) -> None:
            if answered:
                held.append(route)
            else:
                answered.append(route)
                route.continue_()

        expect(visit.page.locator(".view")).to_have_count(8)
        visit.page.route("**/infer", answer_once)
        set_speed(visit, "play", 5)
        visit.page.keyboard.press("Space")
        expect(visit.page.locator("#play-advice .views-box")).to_contain_text("when the game is slower")
        visit.page.keyboard.press("Space")
        expect(visit.page.locator(".view")).to_have_count(8)
        for route in held:
            route.abort()


def test_a_reload_while_a_model_plays_at_full_speed_keeps_the_game(go: Visitor) -> None:
    with go(f"/?board={MIDGAME}") as visit:
        asked = 0

        def answer_two(route: Route) -> None:
            nonlocal asked
            asked += 1
            if asked <= 2:
                route.continue_()

        set_speed(visit, "play", 5)
        expect(visit.page.locator(".view")).to_have_count(8)
        visit.page.route("**/infer", answer_two)
        visit.page.keyboard.press("Space")
        expect(visit.page.locator("#play-moves")).to_have_text("2")
        visit.page.unroute_all(behavior="ignoreErrors")  # lets the third move through
        visit.page.reload()
        visit.page.wait_for_selector("body[data-ready]")
        assert number(visit, "play-moves") >= 2


def test_a_wrong_token_is_refused_and_a_right_one_accepted(go: Visitor) -> None:
    with go(token=None) as visit:
        field = visit.page.locator("#token-field")
        field.wait_for()
        field.fill("wrong")
        field.press("Enter")
        visit.page.get_by_text("refused this token").wait_for()
        field.fill(TOKEN)
        field.press("Enter")
        visit.page.wait_for_selector("body[data-ready]")
        assert visit.run("sessionStorage.getItem('octofold.token')") == TOKEN
        assert visit.run("JSON.stringify({...localStorage})").count(TOKEN) == 0
        assert not any(TOKEN in url or "wrong" in url for url in visit.requests)


def test_the_list_of_models_is_updated_again_once_a_token_is_given(go: Visitor) -> None:
    with go() as visit:
        set_speed(visit, "play", 0)
        visit.run("sessionStorage.setItem('octofold.token', 'revoked')")
        visit.page.locator("#token-field").wait_for()
        visit.page.keyboard.press("Escape")
        visit.page.get_by_role("button", name="One step").click()
        field = visit.page.locator("#token-field")
        field.fill(TOKEN)
        with visit.page.expect_response(lambda reply: "/page/about" in reply.url and reply.ok):
            field.press("Enter")


def test_the_page_gets_the_servers_moves_on_a_thousand_boards(shared_visit: Visit, server: Server) -> None:
    boards = np.random.default_rng(18).integers(0, 12, (1000, 16), dtype=np.uint8)
    ask = """async ({model, boards}) => {
        const { Server } = await import("/page/js/ask/server.js");
        const source = new Server({ askToken: async () => null, onState() {} });
        return JSON.stringify(await source.infer(model, boards));
    }"""
    with Client(server.target, credentials=Credentials(token=TOKEN)) as client:
        for name, version in (("small", "1"), ("swift", newest("swift").name)):
            model = {"name": name, "version": version}
            found = json.loads(shared_visit.run(ask, {"model": model, "boards": boards.tolist()}))
            expected = client.next_moves(boards, model=name, with_probabilities=True)
            assert [answer["move"] for answer in found] == expected.moves.tolist()
            probabilities = [answer["probabilities"] for answer in found]
            assert expected.probabilities is not None
            np.testing.assert_allclose(probabilities, expected.probabilities, atol=1e-6)


def test_the_rules_of_the_page_are_those_of_the_game(shared_visit: Visit) -> None:
    boards = np.random.default_rng(3).choice(
        np.array([0, 0, 0, 1, 1, 2, 5, 15, 16, 17], np.uint8), (2000, 16)
    )
    slides = """async (boards) => {
        const { slide } = await import("/page/viewer/rules.js");
        const brief = ({ board, reward, legal }) => ({ board, reward, legal });
        return JSON.stringify(boards.map((board) => [0, 1, 2, 3].map((move) => brief(slide(board, move)))));
    }"""
    tables = """async () => {
        const { CELLS, MOVES } = await import("/page/js/game/symmetries.js");
        const { largestIn, wilson } = await import("/page/js/game/statistics.js");
        const { Game } = await import("/page/js/game/game.js");
        const starts = [0, 1, 7].map((game) => new Game(2n ** 64n - 5n, { game }).start);
        const most = largestIn(Array.from({ length: 1_000_000 }, (_, i) => i));
        return { CELLS, MOVES, starts, wilson: wilson(7, 60), most };
    }"""
    found: Any = json.loads(shared_visit.run(slides, boards.tolist()))
    known = shared_visit.run(tables)
    assert known["CELLS"] == CELLS.tolist()
    assert known["MOVES"] == MOVES.tolist()
    assert known["most"] == 999_999
    assert known["starts"] == Episodes(2**64 - 5, [0, 1, 7]).boards.tolist()
    assert known["wilson"] == pytest.approx(share_interval(7, 60), rel=1e-12)
    for move in range(4):
        after, rewards = slide(boards, np.full(len(boards), move))
        assert [board[move]["board"] for board in found] == after.tolist()
        assert [board[move]["reward"] for board in found] == rewards.tolist()
        assert [board[move]["legal"] for board in found] == legal_moves(boards)[:, move].tolist()


def test_a_game_continues_after_a_connection_breaks_within_an_answer(go: Visitor) -> None:
    broken: list[Route] = []

    with socket.create_server(("127.0.0.1", 0)) as listener, go() as visit:

        def break_the_first(route: Route) -> None:
            if broken:
                route.continue_()
                return
            broken.append(route)
            route.continue_(url=f"http://127.0.0.1:{listener.getsockname()[1]}/infer")

        def answer_in_part() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
                )

        visit.page.route("**/infer", break_the_first)
        server = threading.Thread(target=answer_in_part)
        server.start()
        set_speed(visit, "play", 2)
        visit.page.keyboard.press("Space")
        visit.page.wait_for_function("() => Number(document.getElementById('play-moves').textContent) > 1")
        server.join()
        assert broken


def test_the_page_waits_for_a_missing_server(go: Visitor, server: Server) -> None:
    with go() as visit:
        set_speed(visit, "play", 2)
        visit.page.keyboard.press("Space")
        visit.page.wait_for_function("() => Number(document.getElementById('play-moves').textContent) > 1")
        banner = visit.page.locator("#banner")
        with server.gone():
            expect(banner).to_contain_text("does not answer")
            moves = number(visit, "play-moves")
        visit.page.wait_for_function(
            "moves => Number(document.getElementById('play-moves').textContent) > moves", arg=moves
        )
        expect(banner).to_be_hidden()  # an earlier answer may have come late
        visit.page.keyboard.press("Space")


def welch(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return Welch's interval for the difference of the averages of independent samples."""
    if min(len(first), len(second)) < 10:
        return None
    squares = [float(each.var(ddof=1)) / len(each) for each in (first, second)]
    if not any(squares):
        return None
    freedom = sum(squares) ** 2 / sum(
        square**2 / (len(each) - 1) for square, each in zip(squares, (first, second), strict=True)
    )
    difference, half = float(second.mean() - first.mean()), student(freedom) * sum(squares) ** 0.5
    return difference - half, difference + half


def test_intervals_of_averages_equal_those_of_the_commands(shared_visit: Visit) -> None:
    random = np.random.default_rng(5)
    samples = [random.gamma(2, 500, count).round() for count in (1, 9, 10, 20, 300)]
    samples += [np.zeros(12), np.full(12, 8.0), np.arange(20.0)]
    few = samples[3] + np.array([4.0] * 9 + [0.0] * 11)  # 9 games differ
    pairs = [(samples[3], few), (samples[3], samples[7]), (samples[3], samples[3])]
    compute = """async ({ samples, pairs }) => {
        const { differenceOf, summarize } = await import("/page/js/game/statistics.js");
        const { ratingsOf } = await import("/page/js/watch/ratings.js");
        const games = (scores, seed) => scores.map((score, game) => ({ seed, game, score }));
        const variance = (scores, average) => scores.reduce((sum, each) => sum + (each - average) ** 2, 0);
        const listed = (scores, seed) => {
            const { count, average } = summarize(scores);
            const deviation = count > 1 ? Math.sqrt(variance(scores, average) / (count - 1)) : null;
            return { conditions: { model: "m", seed }, games: count, average, deviation, age_seconds: 0 };
        };
        return {
            single: samples.map((each) => summarize(each).interval),
            rated: samples.map((each) => ratingsOf([listed(each, 1), listed(samples[3], 2)])[0].interval),
            paired: pairs.map(([a, b]) => differenceOf(games(a, 1), games(b, 1)).interval),
            independent: samples.map((each) => differenceOf(games(each, 1), games(samples[2], 2)).interval),
            equal: differenceOf(games(samples[5], 1), games(samples[6], 2)).interval,
        };
    }"""
    values = [each.tolist() for each in samples]
    listed = [[a.tolist(), b.tolist()] for a, b in pairs]
    found = shared_visit.run(compute, {"samples": values, "pairs": listed})
    single = [average_interval(each) for each in samples]
    assert single[:2] == [None, None]
    expected = {
        "single": single,
        "rated": [average_interval(np.concatenate([each, samples[3]])) for each in samples],
        "paired": [difference_interval(a - b) for a, b in pairs],
        "independent": [welch(samples[2], each) for each in samples],
    }
    assert found.pop("equal") is None
    for name, intervals in expected.items():
        for ours, theirs in zip(found[name], intervals, strict=True):
            assert ours is theirs is None or ours == pytest.approx(theirs, rel=1e-9), name


def test_an_address_without_a_tab_shows_the_first(go: Visitor) -> None:
    with go("/#%") as visit:
        for name in ("toString", "nowhere"):
            expect(visit.page.locator("#tab-play")).to_be_visible()
            visit.run("location.hash = '#watch'")
            expect(visit.page.locator("#tab-watch")).to_be_visible()
            visit.run("(name) => { location.hash = name; }", name)
        expect(visit.page.locator("#tab-play")).to_be_visible()
        assert visit.page.locator("#banner").is_hidden()


def test_the_keyboard_alone_reaches_everything(go: Visitor) -> None:
    with go() as visit:
        reached = []
        for _ in range(24):
            visit.page.keyboard.press("Tab")
            reached.append(
                visit.run("(document.activeElement.ariaLabel ?? document.activeElement.textContent).trim()")
            )
        text = json.dumps(reached)
        for name in ("Skip to the content", "Watch", "Theme", "Board of 2048", "Let the model play", "Hint"):
            assert name in text
        visit.page.locator("nav.tabs a", has_text="Replay").focus()
        visit.page.keyboard.press("Enter")
        visit.page.locator("#tab-replay .drop h2").wait_for()
        visit.page.locator("a.skip").focus()
        visit.page.keyboard.press("Enter")
        expect(visit.page).to_have_url(re.compile("#main$"))
        assert visit.page.locator("#tab-replay").is_visible()
        assert visit.run("document.activeElement.id") == "main"


def test_nothing_is_animated_with_reduced_motion(go: Visitor) -> None:
    with go("/?board=0000000000000110", reduced_motion="reduce") as visit:
        visit.page.keyboard.press("ArrowLeft")
        assert visit.run("document.getAnimations().length") == 0
        assert number(visit, "play-score") == 4
