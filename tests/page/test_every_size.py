"""Complete flows of the page on a phone.

During a flow, the page fits the width of every screen, and axe checks it on the phone in both themes. At the
end, axe also checks it on the laptop in light and on the tablet in dark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial

import pytest
from octofold_game.episodes import Episodes
from playwright.sync_api import Locator, expect
from support.browsers import SIZES, Visit, screen
from support.page_server import NOTEBOOK, SHORT_GAME, Server, Visitor
from support.replays import corner_games, write_result
from support.shipped import newest
from support.waiting import wait_for


@pytest.fixture(scope="module", autouse=True)
def results(server: Server) -> None:
    """Two results, and a judge that has values."""
    for name, count in (("corner", 4), ("others", 3)):
        folder = write_result(server.results / name, corner_games(count, seed=count), model=name)
        (folder / "result.json").write_text("{}")
    server.add_judge()


def opened(visit: Visit, tab: str) -> Locator:
    """Open a tab by its link."""
    visit.page.locator(f"nav [data-tab={tab}]").click()
    return visit.page.locator(f"#tab-{tab}")


def swiped(visit: Visit, board: Locator, right: int, down: int) -> None:
    """Swipe over a board."""
    box = board.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    visit.page.mouse.move(x, y)
    visit.page.mouse.down()
    visit.page.mouse.move(x + right, y + down, steps=4)
    visit.page.mouse.up()


def plays(visit: Visit) -> None:
    """Swipe, let the model move, read a hint, undo, open another game and return; then edit a board by touch,
    turn it, and undo."""
    page = visit.page
    assert visit.is_seen(page.get_by_role("button", name="Let the model play"))  # below the board
    swiped(visit, page.locator("#play-board"), -90, 5)
    expect(page.locator("#play-moves")).to_have_text("1")
    expect(page.locator("#play-score")).to_have_text("4")
    expect(page.locator("#live-region")).to_have_text(re.compile(r"^left\. Score 4, plus 4\."))
    page.locator("#tab-play .speed input").fill("0")
    page.get_by_role("button", name="One step").click()
    expect(page.locator("#play-moves")).to_have_text("2")
    page.get_by_role("button", name="Hint").click()
    expect(page.locator("#play-stage .arrow-on-board")).to_be_visible()
    page.locator("#play-undo").click()
    expect(page.locator("#play-moves")).to_have_text("1")
    page.locator("#play-new").click()
    expect(page.locator("#play-moves")).to_have_text("0")
    page.locator("#play-others button").click()
    expect(page.locator("#play-moves")).to_have_text("1")
    page.get_by_role("button", name="Study", exact=True).click()
    expect(page.locator("#tab-replay")).to_contain_text("The record ends here.")
    opened(visit, "play")
    assert visit.misfits() == []
    page.locator("#play-edit").click()
    page.get_by_role("button", name="Clear").click()
    page.locator("#edit-tile").select_option("11")
    page.get_by_role("button", name="row 4, column 4: empty").click()
    page.get_by_role("button", name="Rotate").click()
    expect(page.locator("#play-link")).to_have_attribute("href", "?board=000000000000b000")
    page.locator("#play-undo").click()
    expect(page.locator("#play-link")).to_have_attribute("href", "?board=000000000000000b")


def studies(visit: Visit) -> None:
    """Answer an exercise wrongly and take the next one; then open a lost game of the server, its last
    mistake, and its mistakes as exercises."""
    notebook = json.dumps(NOTEBOOK)
    visit.run("(text) => localStorage.setItem('octofold.notebook', text)", notebook)
    tab = opened(visit, "practice")
    board = tab.locator(".stage > .board")
    expect(tab.locator(".verdict")).to_have_text("From a test. Swipe toward it.")
    swiped(visit, board, 5, 90)
    expect(tab.locator(".verdict")).to_have_text("Not down. j plays left.")
    expect(tab.locator(".arrow-on-board.toward-left")).to_be_visible()
    assert visit.axe() == []
    tab.get_by_role("button", name="Next exercise").click()
    swiped(visit, board, -90, 5)
    expect(tab.locator(".verdict")).to_have_text("Right. j plays left.")
    expect(tab.locator(".practice-progress")).to_contain_text("50% of 2 tries solved")
    assert visit.misfits() == []
    tab = opened(visit, "replay")
    tab.get_by_role("link", name="corner, 4 games").click()
    choosers = tab.locator(".pickers select")
    expect(choosers.nth(1).locator("option", has_text="points")).to_have_count(1)
    choosers.nth(1).select_option("points/1")
    expect(tab.locator(".asking")).to_have_css("visibility", "hidden")
    tab.get_by_role("button", name=re.compile("The worst mistake is move")).click()
    expect(tab.locator(".arrow-on-board.is-wrong")).to_be_visible()
    expect(tab.locator(".verdict.short .costly")).to_contain_text("points prefers")
    before = tab.locator(".left .board > .said").inner_text()
    tab.get_by_role("button", name="Previous mistake").click()
    expect(tab.locator(".left .board > .said")).not_to_have_text(before)
    tab.locator(".worst button").first.click()
    expect(tab.locator(".move-list .is-current .costly")).to_contain_text("costs")
    assert visit.axe() == []
    tab.get_by_role("button", name="Practice the mistakes").click()
    practice = visit.page.locator("#tab-practice")
    expect(practice.locator(".practice-progress")).to_contain_text(
        re.compile(r"\d+ new exercises? from \d+ mistakes?")
    )
    expect(practice.locator("h2").first).to_have_text("Find the best move")


def has_board(visit: Visit, within: str, board: list[int]) -> bool:
    return visit.board(within) == board


def duels(visit: Visit) -> None:
    """Let two models play the same game until one has lost and the other is ahead."""
    tab = opened(visit, "duel")
    tab.locator(".picker select").nth(1).select_option("small/1")
    tab.locator(".picker select").nth(0).select_option(f"swift/{newest('swift').name}")
    tab.locator("#duel-seed").fill(SHORT_GAME)
    tab.locator("#duel-seed").press("Enter")
    start = Episodes(int(SHORT_GAME), [0]).boards[0].tolist()
    for side in (1, 2):
        wait_for(partial(has_board, visit, f".side:nth-child({side}) .board", start))
    tab.locator(".speed input").fill("5")
    visit.page.route("**/models/swift/**", lambda _: None)  # holds the answers of swift back
    tab.get_by_role("button", name="Let both play").click()
    expect(tab.locator(".side .note", has_text="game over")).to_be_visible()
    visit.page.unroute_all(behavior="ignoreErrors")  # lets the answers through
    expect(tab.locator(".verdict")).to_have_text(re.compile(r"^swift (is ahead|wins) by [\d,]+ points\.$"))
    tab.get_by_role("button", name="Pause").click()


def watches(visit: Visit) -> None:
    """Read every player's average, compare two results, and open the worst game of one."""
    tab = opened(visit, "watch")
    rows = tab.locator(".ratings tbody tr:not(.published)")
    expect(rows).to_have_count(2)
    expect(rows.first.locator("strong")).to_be_visible()
    assert tab.locator(".scrolls").evaluate("box => box.scrollWidth <= box.clientWidth")
    assert visit.misfits() == []
    for name in ("corner", "others"):
        tab.get_by_role("checkbox", name=f"Compare {name}").check()
    tab.get_by_role("button", name="Compare the two").click()
    expect(tab.locator(".compared")).to_contain_text("Median")
    expect(tab.locator(".verdict")).to_contain_text("not the same games: ")
    expect(tab).not_to_contain_text("games are finished")
    assert visit.misfits() == []
    tab = opened(visit, "watch")
    tab.get_by_role("link", name="corner").first.click()
    expect(tab.locator(".facts")).to_contain_text("Average")
    expect(tab.locator(".picture").first).to_have_attribute("aria-label", re.compile("Histogram of 4 scores"))
    assert visit.axe() == []
    tab.locator(".some a").first.click()
    expect(visit.page.locator("#tab-replay .left .scores")).to_contain_text("of")


@pytest.mark.parametrize(
    ("flow", "path"),
    [
        (plays, "/?board=1100000000000000"),
        (duels, "/"),
        *(pytest.param(flow, "/", marks=pytest.mark.long) for flow in (studies, watches)),
    ],
)
def test_a_flow_works_on_a_phone_and_its_page_fits_every_screen(
    go: Visitor, flow: Callable[[Visit], None], path: str
) -> None:
    with go(path, **screen("phone")) as visit:
        flow(visit)
        assert visit.misfits(SIZES) == []
