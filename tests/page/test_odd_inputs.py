"""Unexpected input: the page explains it, and nothing is lost or hangs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from octofold_game.episodes import Episode
from playwright.sync_api import Page, Route, expect
from support.page_server import Server, Visitor
from support.replays import corner_games, write_games, write_result

TITLE = "#tab-replay .drop h2"
BOARD = "#tab-replay .left .board > .said"
UNKEPT = "The browser cannot store the notebook, so it is lost when you close the tab."
FILL = """() => {
    for (let size = 1 << 22; size; size >>= 1) {
        try {
            for (let i = 0; ; i += 1) localStorage.setItem(`filled-${size}-${i}`, "x".repeat(size));
        } catch {
            // there is no room for so much
        }
    }
}"""


@pytest.fixture(scope="module")
def games(server: Server) -> list[Episode]:
    found = corner_games(3)
    write_result(server.results / "corner", found)
    empty = write_result(server.results / "empty", found, model="nobody")
    (empty / "games.replay").unlink()
    write_games(empty / "games.replay", [])
    return found


def damaged(games: list[Episode], folder: Path) -> bytes:
    """Write a replay file with one changed bit."""
    write_games(folder / "whole.replay", games)
    content = bytearray((folder / "whole.replay").read_bytes())
    content[40] ^= 1
    return bytes(content)


def test_a_wrong_replay_file_is_refused_in_one_sentence(
    go: Visitor, games: list[Episode], tmp_path: Path
) -> None:
    with go("/#replay") as visit:
        for name, content, said in (
            ("nothing.replay", b"", "nothing.replay is empty."),
            ("picture.png", b"\x89PNG\r\n\x1a\n" + bytes(5_000_000), "This is not a replay file of Octofold"),
            ("head.replay", b"OctoGame\x01\x00\x00\x00", "head.replay contains no finished game."),
            ("newer.replay", b"OctoGame\x09\x00\x00\x00", "The replay file has format 9"),
            ("damaged.replay", damaged(games, tmp_path), "damaged at byte 12"),
            ("short.replay", b"<html>", "This is not a replay file of Octofold."),
        ):
            (tmp_path / name).write_bytes(content)
            visit.page.locator("#replay-file").set_input_files(tmp_path / name)
            expect(visit.page.locator(TITLE)).to_contain_text(said)
        visit.page.locator("#replay-file").set_input_files(tmp_path / "whole.replay")
        expect(visit.page.locator("#game-list option")).to_have_count(3)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("?board=zz00000000000000", "The board has “z” in row 1, column 1; cells are 0 to 9 and a to h."),
        ("?board=%F0%9F%99%82", "A board has 16 digits, not 2."),
    ],
)
def test_a_wrong_board_in_the_address_is_explained_and_the_page_works(
    go: Visitor,
    games: list[Episode],  # noqa: ARG001  # the result that is there
    address: str,
    said: str,
) -> None:
    with go(f"/{address}") as visit:
        expect(visit.page.locator("#banner")).to_contain_text(said)
        visit.run("location.hash = '#replay/corner/1'")
        expect(visit.page.locator(BOARD)).to_contain_text("Row 1")


def test_after_a_link_to_a_missing_item_another_can_be_chosen(
    go: Visitor,
    games: list[Episode],  # noqa: ARG001  # the result that is there
) -> None:
    with go("/#replay/nowhere") as visit:
        expect(visit.page.locator("body")).to_contain_text("There is no result named nowhere.")
        for address, said in (
            ("#replay/empty", "There is no finished game in empty."),
            ("#watch/nowhere", "There is no result named nowhere."),
            ("#watch/corner/empty", "No game of empty has finished yet."),
            ("#watch/corner/nowhere", "There is no result named nowhere."),
            ("#replay/corner/99", "There is no game 99 in corner."),
        ):
            visit.run("location.hash = '#replay/corner/1'")
            expect(visit.page.locator(BOARD)).to_contain_text("Row 1")
            expect(visit.page.locator("#game-list")).to_be_visible()
            visit.run("(address) => { location.hash = address; }", address)
            expect(visit.page.locator(f"#tab-{address[1:].split('/')[0]}")).to_contain_text(said)
        visit.page.locator("#game-list").select_option(index=2)
        expect(visit.page.locator(TITLE)).to_have_text("corner")
        expect(visit.page.locator(BOARD)).to_contain_text("Row 1")


def first_aborted(page: Page, pattern: str) -> list[Route]:
    """Make the first request for an address fail, as without a server."""
    aborted: list[Route] = []

    def answer(route: Route) -> None:
        if aborted:
            route.continue_()
        else:
            aborted.append(route)
            route.abort()

    page.route(pattern, answer)
    return aborted


def test_the_page_loads_what_is_missing_when_the_server_is_back(
    go: Visitor, server: Server, games: list[Episode]
) -> None:
    write_result(server.results / "other", games)
    with go() as visit:
        for lost, address, shown in (
            ("**/page/results", "#watch", "#tab-watch .card"),
            ("**/results/corner/games.replay*", "#watch/corner/corner", ".compared"),
            ("**/js/tabs/replay_tab.js", "#replay/corner", "#game-list"),
            ("**/results/other/games.replay*", "#replay/other", f"{TITLE}:text-is('other')"),
        ):
            aborted = first_aborted(visit.page, lost)
            visit.run("(address) => { location.hash = address; }", address)
            expect(visit.page.locator(shown).first).to_be_visible()
            expect(visit.page.locator("#banner")).to_be_hidden()
            assert aborted
        first_aborted(visit.page, "**/js/replay/gif.js")
        expect(visit.page.locator("#tab-replay .asking")).to_have_css("visibility", "hidden")
        visit.page.get_by_role("button", name="Save as GIF").click()
        expect(visit.page.locator("#tab-replay .verdict.short")).to_contain_text("The GIF could not be made")


def test_back_and_forward_switch_tabs_and_keep_the_studied_game(
    go: Visitor,
    games: list[Episode],  # noqa: ARG001  # the result that is shown
) -> None:
    with go() as visit:
        visit.page.keyboard.press("ArrowLeft")
        visit.page.keyboard.press("ArrowDown")
        moves = visit.text("play-moves")
        visit.page.locator("[data-tab=watch]").click()
        visit.page.get_by_role("link", name="corner").first.click()
        visit.page.locator(".some a").first.click()
        expect(visit.page.locator("#tab-replay .left .scores")).to_contain_text("of")
        visit.page.keyboard.press("Home")
        visit.page.locator("[data-tab=practice]").click()
        expect(visit.page.locator("#tab-practice")).to_be_visible()
        visit.page.go_back()
        expect(visit.page.locator("#tab-replay")).to_be_visible()
        expect(visit.page.locator("#game-list")).to_be_visible()
        visit.page.go_back()
        expect(visit.page.locator("#tab-watch .facts")).to_be_visible()
        visit.page.go_back()
        expect(visit.page.locator("#tab-watch .cards")).to_be_visible()
        visit.page.go_back()
        expect(visit.page.locator("#play-moves")).to_have_text(moves)
        for tab in ("watch", "watch", "replay"):
            visit.page.go_forward()
            expect(visit.page.locator(f"#tab-{tab}")).to_be_visible()
        expect(visit.page.locator(BOARD)).to_contain_text("Row 1")


def test_a_game_outlives_a_link_a_reload_and_a_second_tab(go: Visitor) -> None:
    def plays(page: Page, rounds: int) -> str:
        for key in ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown") * rounds:
            page.keyboard.press(key)
        return page.locator("#play-board > .said").inner_text()

    with go() as visit:
        page = visit.page
        address = page.url
        page.keyboard.press("n")  # a new game, which is not lost as soon as that of a first visit
        first_tab = plays(page, 3)
        page.goto(f"{address}?board=1100000000000000")
        page.wait_for_selector("body[data-ready]")
        of_link = plays(page, 1)
        page.reload()
        page.wait_for_selector("body[data-ready]")
        board = page.locator("#play-board > .said")
        expect(board).to_have_text(of_link)
        page.locator("#play-others button").click()
        expect(board).to_have_text(first_tab)
        other = page.context.new_page()
        other.add_init_script("sessionStorage.setItem('octofold.token', 'friend-of-the-house')")
        other.goto(address)
        expect(other.locator("#play-board > .said")).to_have_text(first_tab)
        visit.run("void addEventListener('storage', () => (window.following = true))")
        second_tab = plays(other, 1)
        page.wait_for_function("() => window.following")
        first_tab = plays(page, 2)
        for tab, shown in ((page, first_tab), (other, second_tab)):
            tab.reload()
            expect(tab.locator("#play-board > .said")).to_have_text(shown)
        other.close()


def exercise(board: str) -> dict[str, object]:
    return {"board": board, "better": 3, "unit": "points", "judge": "j", "source": "a test"}


def notebook(*boards: str) -> str:
    return json.dumps({"format": "octofold-notebook-1", "exercises": [exercise(board) for board in boards]})


def test_two_tabs_keep_one_notebook_and_the_better_of_two_scores(go: Visitor) -> None:
    with go() as visit:
        page = visit.page
        keep = "(text) => localStorage.setItem('octofold.notebook', text)"
        visit.run(keep, notebook("1100000000000000"))
        page.locator("[data-tab=practice]").click()
        expect(page.locator(".practice-progress")).to_contain_text("1 exercise,")
        other = page.context.new_page()
        other.add_init_script("sessionStorage.setItem('octofold.token', 'friend-of-the-house')")
        other.goto(page.url.split("#")[0] + "?board=0112033447120a91")
        expect(other.locator(".view")).to_have_count(8)
        other.get_by_role("button", name="Practice this board").click()
        expect(other.locator("#play-comment")).to_contain_text("is now an exercise")
        expect(page.locator(".practice-progress")).to_contain_text("2 exercises,")  # without a reload
        page.locator("#tab-practice .board").focus()
        page.keyboard.press("ArrowLeft")
        kept = json.loads(visit.run("localStorage.getItem('octofold.notebook')"))["exercises"]
        assert sorted(each["board"] for each in kept) == ["0112033447120a91", "1100000000000000"]
        assert sum(each["tries"] for each in kept) == 1
        page.locator("[data-tab=play]").click()
        # Each tab's process has a copy of the storage, and sees changes of the other tab a moment later.
        visit.run("void addEventListener('storage', (event) => (window.following = event.key))")
        other.evaluate("localStorage.setItem('octofold.best', '100000')")
        page.wait_for_function("() => window.following === 'octofold.best'")
        page.keyboard.press("n")  # the game of a first visit has no best score
        for key in ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown") * 6:
            page.keyboard.press(key)
        assert visit.run("localStorage.getItem('octofold.best')") == "100000"
        other.close()


def test_a_browser_without_storage_warns_and_keeps_all_until_another_tab_stores_something(
    go: Visitor,
) -> None:
    with go("/?board=0112033447120a91") as visit:
        page = visit.page
        visit.run(FILL)
        expect(page.locator(".view")).to_have_count(8)
        page.get_by_role("button", name="Practice this board").click()
        expect(page.locator("#play-comment")).to_contain_text(UNKEPT)
        page.locator("[data-tab=practice]").click()
        expect(page.locator(".practice-progress")).to_contain_text("1 exercise,")
        expect(page.locator(".practice-progress [role=alert]")).to_have_text(UNKEPT)
        exercise_board = "".join(f"{exponent:x}" for exponent in visit.board("#tab-practice .left .board"))
        assert exercise_board == "0112033447120a91"
        page.locator("[data-tab=play]").click()
        expect(page.locator("#tab-play")).to_be_visible()  # else the keys would play the exercise
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowUp")
        expect(
            page.get_by_text("The browser cannot store this game, so it is lost when you close the tab.")
        ).to_be_visible()
        other = page.context.new_page()
        other.goto(page.url.split("?")[0] + "page/icon.svg")
        other.evaluate(
            "text => { localStorage.clear(); localStorage.setItem('octofold.notebook', text); }",
            notebook("1100000000000000", "1010000000000000"),
        )
        page.locator("[data-tab=practice]").click()
        expect(page.locator(".practice-progress")).to_contain_text("2 exercises,")
        expect(page.locator(".practice-progress [role=alert]")).to_have_count(0)
        other.close()
