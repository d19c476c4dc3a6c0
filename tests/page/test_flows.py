"""The main uses of the page: games that accidents do not lose, mistakes, comparisons."""

from __future__ import annotations

import re
import shutil

import pytest
from octofold_game.episodes import Episode
from playwright.sync_api import expect
from support.browsers import Visit, screen
from support.page_server import Server, Visitor
from support.replays import corner_games, write_result


@pytest.fixture(scope="module", autouse=True)
def judge(server: Server) -> None:
    server.add_judge()


@pytest.fixture(scope="module")
def games(server: Server) -> list[Episode]:
    found = corner_games(4)
    write_result(server.results / "corner", found)
    write_result(server.results / "others", corner_games(4, seed=6), model="others")
    return found


def with_judge(visit: Visit, tab: str = "replay") -> None:
    """Choose the judge that has values."""
    judges = visit.page.locator(f"#tab-{tab} .pickers select").nth(1)
    expect(judges.locator("option", has_text="points")).to_have_count(1)
    judges.select_option("points/1")


def test_a_first_visit_shows_a_game_with_all_views_on_the_screen_and_advice_that_can_be_hidden(
    go: Visitor,
) -> None:
    with go(**screen("laptop")) as visit:
        page = visit.page
        expect(page.locator(".view")).to_have_count(8)
        assert max(visit.board()) > 10
        for shown in (page.locator("#play-board"), page.get_by_role("button", name="Let the model play")):
            assert visit.is_seen(shown)
        with_judge(visit, "play")
        expect(page.locator("#play-advice .differs, #play-advice .agrees").first).to_be_visible()
        for height in (720, 640, 600):
            page.set_viewport_size({"width": 1280, "height": height})
            assert visit.is_seen(page.locator(".view").last)
        page.get_by_role("button", name="Hide advice").click()
        expect(page.locator("#play-advice .verdict")).to_be_hidden()
        page.keyboard.press("h")
        expect(page.locator("#play-stage .arrow-on-board")).to_be_visible()
        expect(page.locator("#play-advice .move-row").first).to_be_hidden()
        page.keyboard.press("n")
        page.reload()
        page.get_by_role("button", name="Show advice").click()
        expect(page.locator(".view")).to_have_count(8)
        framed = visit.run(
            """async () => {
                const { ViewsPanel } = await import("/page/js/advice/views_panel.js");
                const root = document.createElement("div");
                const of = (vote, probabilities) => ({ symmetry: 0, board: [], vote, probabilities });
                const nearly = of(1, [0.48, 0.52, 0, 0]);
                new ViewsPanel(root).show([of(0, [1, 0, 0, 0]), nearly, of(1, [0.4, 0.6, 0, 0])], 0);
                return [...root.querySelectorAll(".view")].map((view) => view.matches(".differs"));
            }"""
        )
        assert framed == [False, False, True]


def test_the_last_left_game_is_kept_beside_five_with_more_points(go: Visitor) -> None:
    with go() as visit:
        page = visit.page
        address = page.url
        for row in (*5 * ["8800"], "1100"):
            page.goto(f"{address}?board={row}000000000000")
            page.wait_for_selector("body[data-ready]")
            page.keyboard.press("ArrowLeft")
        page.keyboard.press("n")
        expect(page.locator("#play-comment")).to_contain_text("Your previous game is kept")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#play-others button")).to_have_count(5)
        page.locator("#play-others").get_by_role("button", name="4 points", exact=True).click()
        expect(page.locator("#play-moves")).to_have_text("1")


def test_a_game_continues_after_the_winning_tile_2048(go: Visitor) -> None:
    with go("/?board=aa00000000000000") as visit:
        visit.page.keyboard.press("ArrowLeft")
        expect(visit.page.locator("#play-over")).to_contain_text("You made 2048!")
        visit.page.get_by_role("button", name="Keep going").click()
        expect(visit.page.locator("#play-over")).to_be_hidden()
        visit.page.keyboard.press("ArrowRight")
        expect(visit.page.locator("#play-moves")).to_have_text("2")


def test_a_lost_game_says_that_no_move_is_left_and_a_click_begins_another(go: Visitor) -> None:
    with go("/?board=1212212112122121") as visit:
        expect(visit.page.locator("#play-over")).to_contain_text("No move is left.")
        expect(visit.page.locator("#play-advice .verdict")).to_contain_text("No move is left")
        visit.page.locator("#play-again").click()
        expect(visit.page.locator("#play-over")).to_be_hidden()
        assert sorted(visit.board())[:14] == [0] * 14


def test_a_uniform_answer_is_no_preference_and_unrounded_probabilities_decide(shared_visit: Visit) -> None:
    text = """async () => {
        const { describeMove } = await import("/page/js/advice/verdict.js");
        const model = { name: "m", rule: "vote", symmetries: 8 };
        const legal = [true, true, false, true];
        const said = ({ model: own, ...answer }) => {
            const { plays, because } = describeMove({ ...model, ...own }, { legal, move: 0, ...answer });
            return plays + because;
        };
        const player = { player: "search", value_unit: "chance of success", symmetries: 0 };
        const third = 1 / 3;
        const rounded = [0.334, 0.333, 0, 0.333];
        return [
            said({ probabilities: [third, third, 0, third], votes: [2, 2, 2, 2] }),
            said({ probabilities: rounded, votes: [4, 2, 0, 2] }),
            said({ probabilities: rounded, votes: [4, 2, 0, 2], model: { rule: "mean" } }),
            said({ probabilities: [1, 0, 0, 0], votes: [8, 0, 0, 0], legal: [true, false, false, false] }),
            said({ values: [0.95, 0.9, null, 0.2], depth: 6, model: player }),
        ];
    }"""
    assert shared_visit.run(text) == [
        "m has no preference: it rates all legal moves alike. It plays up.",
        "m plays up: 4 of its 8 views vote for it.",
        "m plays up: its 8 views give it a probability of 33% on average.",
        "m plays up, the only legal move.",
        "m plays up: 95.0% chance of success, 5.0% more than right, searched 6 moves deep.",
    ]


def test_costs_are_never_negative_accuracy_has_its_formula_and_a_study_begins_at_the_end(
    shared_visit: Visit,
) -> None:
    compute = """async () => {
        const { addLuck, tally, study } = await import("/page/js/replay/study.js");
        const judge = { name: "j", player: "search", value_unit: "points", symmetries: 0 };
        const legal = [true, true, true, true];
        const answer = { move: 2, legal, values: [1000, 4000, 8000, 6000], votes: undefined };
        const source = { infer: async (_, boards) => boards.map(() => answer) };
        const watch = { onProgress() {}, isWanted: () => true };
        const game = (moves) => ({ boards: moves, scores: moves, moves: moves.map((move) => ({ move })) });
        const verdicts = await study(source, { model: judge }, game([2, 1, 3, 0]), watch);
        const known = [];
        await study(source, { model: judge }, game(new Array(100).fill(2)), {
            onProgress: (share, found) => known.push({ share, first: found.findIndex(Boolean) }),
            isWanted: () => known.length < 2,
        });
        let late = 0;
        let isWanted = true;
        const overtaken = { infer: async (_, boards) => ((isWanted = false), boards.map(() => answer)) };
        const newer = { onProgress: () => (late += 1), isWanted: () => isWanted };
        await study(overtaken, { model: judge }, game([2]), newer);
        const board = [1, 1, ...new Array(14).fill(0)]; // worth ten times its second cell
        const worth = ([, second]) => ({ move: 0, values: [10 * second, null, null, null] });
        const ten = { infer: async (_, boards) => boards.map(worth) };
        const left = { boards: [board], moves: [{ move: 3, cell: 1, exponent: 2 }] };
        const lucky = {};
        await addLuck(ten, judge, left, [lucky], watch);
        return {
            lucky, costs: verdicts.map(({ cost }) => cost), known, late,
            ...tally(verdicts, { model: judge }),
        };
    }"""
    found = shared_visit.run(compute)
    assert found["costs"] == [0, 4000, 2000, 7000]
    assert found["accuracy"] == pytest.approx(100 * (1 + 0.5 + 0.75 + 0.125) / 4)
    assert (found["mistakes"], found["isRatio"]) == (3, True)
    assert found["known"][0] == {"share": pytest.approx(0.16), "first": 84}  # the end is judged first
    assert found["known"][1]["first"] < 84
    # Only the second of 15 cells has a value: 20 or, nine times as often, 10.
    assert found["lucky"] == {"luck": pytest.approx(20 - 11 / 15), "next": 20}
    assert found["late"] == 0  # an answer after the end of the study is ignored


def test_only_with_a_judge_that_has_values_the_page_steps_through_mistakes(
    go: Visitor, games: list[Episode]
) -> None:
    worst = min(games, key=lambda game: game.score)
    with go("/#replay/corner") as visit:
        visit.page.locator("#tab-replay .pickers select").nth(1).select_option("")
        accuracy = visit.page.locator("#tab-replay .accuracy")
        expect(accuracy).to_contain_text("small gives no points or chances, so no move has a cost")
        expect(visit.page.get_by_role("button", name="Next mistake")).to_be_disabled()
        with_judge(visit)
        expect(accuracy).to_contain_text(re.compile(rf"\d+ of {len(worst)} moves are those of points"))
        expect(accuracy).to_contain_text("costs 1% of the score to expect or more")
        expect(visit.page.locator("#tab-replay progress")).to_have_css("visibility", "hidden")
        said = visit.page.locator("#tab-replay .verdict.short")
        expect(said).to_contain_text("The worst mistake is move")
        visit.page.keyboard.press("Home")
        visit.page.get_by_role("button", name="Next mistake").click()
        expect(said.locator(".costly")).to_contain_text("points")
        expect(visit.page.locator("#tab-replay .arrow-on-board.is-wrong")).to_be_visible()
        current = visit.page.locator(".move-list [aria-current] >> nth=0")
        number = int(re.split(r"\D", current.inner_text())[0])
        assert number > 0
        visit.page.locator(".worst button").first.click()
        expect(visit.page.locator("#tab-replay .scores")).to_contain_text("of")


def test_result_cards_show_averages_and_two_results_can_be_compared(
    go: Visitor, server: Server, games: list[Episode]
) -> None:
    shutil.copytree(server.results / "corner", server.results / "copy")
    average = sum(game.score for game in games) / len(games)
    with go("/#watch") as visit:
        card = visit.page.locator(".card-box", has_text="corner").first
        expect(card).to_contain_text(f"{average:,.0f} on average, 4 games")
        visit.page.get_by_role("checkbox", name="Compare corner").check()
        visit.page.get_by_role("checkbox", name="Compare others").check()
        visit.page.get_by_role("button", name="Compare the two").click()
        verdict = visit.page.locator("#tab-watch .verdict")
        expect(verdict).to_contain_text("not the same games: ")
        visit.run("location.hash = '#watch/corner/copy'")
        expect(verdict).to_contain_text("; 4 games each. An interval requires at least 10 games")
        expect(visit.page.locator(".compared tr", has_text="95% interval")).to_contain_text("\u2013\u2013")
        visit.run("location.hash = '#watch'")
        ratings = visit.page.locator(".ratings tbody tr:not(.published)")
        expect(ratings).to_have_count(2)  # a copy of the same games counts only once
        expect(ratings.filter(has_text="corner")).to_contain_text(f"{average:,.0f} fewer than 10 games4")
        assert visit.axe() == []
