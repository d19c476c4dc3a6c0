"""The HTML report in a real browser: its requests, its games with keys, hostile names."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from octofold_client.cli.html_report import write_html
from octofold_client.contenders.judges import Judge, Opinion
from octofold_client.studies.analysis import Analysis, Ending, Verdicts
from octofold_game.episodes import Episode
from octofold_game.replays import read_replays
from octofold_game.rules import MOVE_NAMES
from octofold_game.trajectories import Trajectory, last_positions
from playwright.sync_api import Browser, Page, ViewportSize
from support.browsers import DESKTOP, PHONE, Visit, board_of, chromium

EVIL = '<script>window.owned = 1</script><img src=x onerror="window.owned = 2">$x_1$&amp;'
COSTLY = 7
"""Position of the costly move, counted from the end of the game."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def judged(folder: Path, judge: str) -> None:
    """Write an analysis in which the judge disagrees with one move of game 3."""
    episodes = sorted(read_replays(folder / "games.replay"), key=lambda each: each.game)
    positions = last_positions(episodes, 20)
    verdicts = Verdicts.none(len(positions))
    verdicts.choices[:] = positions.made
    verdicts.costs[:], verdicts.values[:] = 0.0, 0.5
    (row,) = np.flatnonzero((positions.games == 3) & (positions.left == COSTLY))
    verdicts.costs[row], verdicts.choices[row] = 0.25, (positions.made[row] + 1) % 4
    by = Judge(judge, None, "points", 17, 1, lambda _: Opinion(verdicts.choices, verdicts.values))
    analysis = Analysis.of(list(map(Ending.of, episodes)), positions, verdicts, 20, by)
    (folder / "analysis.json").write_text(json.dumps(asdict(analysis)))


@pytest.fixture(scope="module")
def report(games: Path, worse_games: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of two results, one with a judged analysis; all names are hostile."""
    folder = tmp_path_factory.mktemp("report")
    for name, source in (("good", games), ("bad", worse_games)):
        shutil.copytree(source, folder / name)
        conditions = json.loads((source / "conditions.json").read_text())
        conditions["model"] = f"{name} {EVIL}"
        (folder / name / "conditions.json").write_text(json.dumps(conditions))
    judged(folder / "good", EVIL)
    run = {"command": EVIL, "machine": EVIL, "started": EVIL, "octofold": EVIL}
    (folder / "good" / "runs.jsonl").write_text(f"{json.dumps(run)}\nnot JSON\n")
    write_html(folder / "report.html", [folder / "good", folder / "bad"])
    return folder / "report.html"


@contextmanager
def opened(browser: Browser, file: Path, size: ViewportSize) -> Iterator[Page]:
    """Open the report in a browser. It must request no other file and write nothing to the console."""
    context = browser.new_context(viewport=size)
    page = context.new_page()
    requests, said = list[str](), list[str]()
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(file.as_uri())
    yield page
    assert requests == [file.as_uri()]
    assert said == []
    context.close()


BOARD = "#stage .board"


def figures(page: Page) -> dict[str, int]:
    """Return the score and the number of the move above the board."""
    texts = page.locator("#stage .scores dd").all_inner_texts()
    score, move = (int(text.split(" of ")[0].replace(",", "")) for text in texts[:2])
    return {"score": score, "move": move}


def game_of(report: Path, game: int, folder: str = "good") -> Episode:
    replays = read_replays(report.parent / folder / "games.replay")
    return next(episode for episode in replays if episode.game == game)


@pytest.mark.parametrize(
    "size", [pytest.param(DESKTOP, marks=pytest.mark.long), PHONE], ids=["desktop", "phone"]
)
def test_a_report_requests_nothing_from_a_host_and_fits_every_screen_in_both_themes(
    browser: Browser, report: Path, size: ViewportSize
) -> None:
    papers = set()
    with opened(browser, report, size) as page:
        visit = Visit(page)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
            papers.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            pictures = page.locator("img.picture")
            assert pictures.evaluate_all("(all) => all.map((each) => each.naturalWidth > 0)") == [True] * 5
            if scheme == "light":
                assert visit.axe() == []  # of both
    assert len(papers) == 2


def test_keys_step_through_the_boards_of_the_worst_game(browser: Browser, report: Path) -> None:
    with opened(browser, report, DESKTOP) as page:
        for _ in range(60):  # by keyboard alone
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('#stage .board')"):
                break
        episodes = list(read_replays(report.parent / "good" / "games.replay"))
        worst = min(episodes, key=lambda episode: (episode.score, episode.game))
        walk = Trajectory.of(worst)
        assert f"game {worst.game}" in page.locator("#viewer-title").inner_text()
        assert board_of(page, BOARD) == worst.final_board.tolist()  # the final board
        page.keyboard.press("Home")
        assert board_of(page, BOARD) == walk.boards[0].tolist()
        for move in range(1, 11):
            assert MOVE_NAMES[walk.moves[move - 1]] in page.locator("#stage .verdict").inner_text()
            page.keyboard.press("ArrowRight")
            assert (board_of(page, BOARD), figures(page)["score"]) == (
                walk.boards[move].tolist(),
                walk.scores[move],
            )
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("PageDown")
        assert board_of(page, BOARD) == walk.boards[min(19, len(worst))].tolist()
        page.keyboard.press("End")
        assert (board_of(page, BOARD), figures(page)["score"]) == (worst.final_board.tolist(), worst.score)
        page.keyboard.press("Home")
        assert figures(page)["move"] == 0


def test_a_link_to_a_costly_move_opens_its_game_at_the_move(browser: Browser, report: Path) -> None:
    episode = game_of(report, 3)
    with opened(browser, report, DESKTOP) as page:
        move = len(episode) - COSTLY
        page.get_by_role("button", name=f"Game 3, move {move:,}").click()
        assert figures(page)["move"] == move
        assert board_of(page, BOARD) == Trajectory.of(episode).boards[move].tolist()
        better = MOVE_NAMES[(Trajectory.of(episode).moves[move] + 1) % 4]  # by the judge
        assert page.locator(f"#stage .arrow-on-board.is-wrong.toward-{better}").is_visible()


def test_a_script_in_a_name_does_not_run(browser: Browser, report: Path) -> None:
    with opened(browser, report, DESKTOP) as page:
        assert page.evaluate("window.owned") is None
        assert page.locator("h1").inner_text().count(EVIL) == 2
        assert page.locator("img:not(.picture)").count() == 0
        assert page.locator("script").count() == 1
        conditions = page.locator(".conditions").first.inner_text()
        assert conditions.count(EVIL) == 6  # heading, player, command, date, version, machine


def test_the_policy_refuses_any_other_script_style_and_host(browser: Browser, report: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    refused = list[str]()
    page.on("console", lambda message: refused.append(message.text))
    page.goto(report.as_uri())
    page.evaluate(
        """async () => {
            for (const [tag, text] of [["script", "window.owned = 3"], ["style", "body { color: red }"]]) {
                document.body.append(Object.assign(document.createElement(tag), { textContent: text }));
            }
            document.body.insertAdjacentHTML("beforeend", '<p style="color: red">');
            await fetch("http://127.0.0.1:9/").catch(() => {});
        }"""
    )
    assert page.evaluate("window.owned") is None
    while len([text for text in refused if "Content Security Policy" in text]) < 4:
        page.wait_for_event("console")
    context.close()
