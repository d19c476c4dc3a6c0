"""Texts of the page: the order of models, curves, ratings, progress."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect
from support.browsers import Visit
from support.page_server import Visitor

CURVE = """async ({ unit, values, scores }) => {
    const { Curve } = await import("/page/viewer/curve.js");
    const curve = new Curve(() => {});
    const texts = [];
    const { fillText } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
        texts.push(text);
        fillText.call(this, text, ...at);
    };
    document.querySelector("#tab-play").append(curve.element);
    curve.open(scores.map((_, move) => [7 + move, ...new Array(15).fill(0)]), scores);
    const cost = unit ? 5000 : null;
    const lucky = { luck: 1000, next: 5000 };
    const verdicts = values.map((value) => ({ played: 0, model: 0, judge: 1, cost, value, ...lucky }));
    texts.length = 0;
    curve.judge(verdicts, unit ? { unit } : undefined, "j");
    return { title: curve.element.querySelector("p").textContent, legend: curve.element.textContent, texts };
}"""


def drawn(visit: Visit, unit: str | None, values: list[float | None]) -> Any:
    """Return the title, the legend and all texts of a curve over a game."""
    scores = [0, 1000, 3000, 7000]
    return visit.run(CURVE, {"unit": unit, "values": values, "scores": scores})


def test_a_curve_has_axes_and_says_what_it_shows(shared_visit: Visit) -> None:
    points = drawn(shared_visit, "points", [20_000.0, 19_000.0, 12_000.0])
    chance = drawn(shared_visit, "chance of success", [0.9, 0.8, 0.1])
    neither = drawn(shared_visit, None, [None, None, None])
    # The expected score falls from 20,000 to 12,000: 7,000 points and a board worth 5,000. Each of three
    # tiles adds 1,000.
    assert points["title"] == ("Score to expect at the end, by jluck of the tiles: +3,000moves: \u221211,000")
    assert {"-11k", "0", "20k", "move 0", "2", "3", "1024"} <= set(points["texts"])
    assert chance["title"] == "Chance of success, by j"
    assert {"0%", "50%", "100%", "move 0"} <= set(chance["texts"])
    assert neither["title"] == "Score so far"
    assert {"0", "3,500", "7,000"} <= set(neither["texts"])
    assert "a mistake" in points["legend"]
    assert "a mistake" not in neither["legend"]  # nobody knows costs
    for each in (points, chance, neither):
        assert "disputed: the model or the judge prefers another move" in each["legend"]


def test_models_are_listed_by_strength(shared_visit: Visit) -> None:
    models = """async (averages) => {
        const { Models } = await import("/page/js/ask/models.js");
        const { modelSelect } = await import("/page/js/advice/model_select.js");
        const models = new Models({}, averages.map(([name, average]) => ({ name, version: "12", average })));
        const chooser = modelSelect("Model", models, { on() {}, first: models.first });
        return [...chooser.label.querySelector("select").options].map(({ text }) => text);
    }"""
    averages = [["flagship", 270_216.0], ["unmeasured", None], ["ntuple", 210_280.0]]
    assert shared_visit.run(models, averages) == [
        "flagship 12 · 270k",
        "ntuple 12 · 210k",
        "unmeasured 12",
    ]


def rated(visit: Visit, results: list[dict[str, Any]]) -> list[str]:
    """Return the rows of a rating list."""
    show = """async (results) => {
        const { Ratings } = await import("/page/js/watch/ratings.js");
        const cards = [["m", "1", 4321], ["s", "9", 99000]];
        const all = cards.map(([name, version, average]) => ({ name, version, average }));
        const ratings = new Ratings({ all });
        document.querySelector("#tab-watch").append(ratings.element);
        ratings.show(results);
        const texts = [...ratings.element.querySelectorAll("tbody tr")];
        return texts.map((each) => each.textContent);
    }"""
    found: list[str] = visit.run(show, results)
    return found


def test_a_player_without_a_finished_evaluation_has_no_rank_in_the_rating_list(shared_visit: Visit) -> None:
    def result(version: str, average: float | None, games: int, *, seed: int) -> dict[str, Any]:
        conditions = {"model": "m", "version": version, "precision": "", "sha256": None, "seed": str(seed)}
        unfinished = None if average else f"Only {games} of 9 games are finished."
        figures = {"games": games, "average": average, "deviation": 100.0, "age_seconds": 60}
        return {"conditions": conditions, "unfinished": unfinished, **figures}

    finished, growing = result("1", 5000, 20, seed=1), result("1", None, 4, seed=2)
    alone = result("2", None, 3, seed=1)
    equal, few, weak = result("3", 5050, 20, seed=1), result("4", 9000, 2, seed=1), result("5", 9, 20, seed=1)
    text = "\n".join(rated(shared_visit, [few, weak, growing, finished, equal, alone]))
    ranks = [line.split("m ")[0] for line in text.split("\n") if "m " in line]
    assert ranks[:3] == ["1 to 2", "1 to 2", "3"]
    assert "\u2013m 49,000 fewer than 10 games2" in text
    assert "\u2013s 9no result here99,000" in text
    assert "1 to 2m 15,000" in text  # rank, name and version, and the average of only the finished games
    assert "\u2013m 2Only 3 of 9 games are finished.3" in text
    assert "Only 4 of 9" not in text
    assert "not finished" not in "\n".join(rated(shared_visit, [finished])).lower()


def test_help_fits_on_one_screen(go: Visitor) -> None:
    with go("/?board=0112033447120a91") as visit:
        expect(visit.page.locator(".view")).to_have_count(8)
        for opener in ("How this page works", "More"):
            visit.page.get_by_role("button", name=opener).click()
            panel = visit.page.get_by_role("dialog", name="How this page works")
            expect(panel).to_contain_text("takes a move back")
            assert visit.is_seen(panel)
            visit.page.keyboard.press("n")  # begins no game while the help is open
            visit.page.keyboard.press("Escape")
            expect(panel).to_be_hidden()
        assert visit.board()[15] == 1


def test_a_cost_above_a_share_of_the_score_is_a_mistake_and_saturated_costs_are_lower_bounds(
    shared_visit: Visit,
) -> None:
    found = shared_visit.run(
        """async () => {
            const { costOf, costText, costlyFrom, worthOf } = await import("/page/viewer/worth.js");
            const { study, tally } = await import("/page/js/replay/study.js");
            const { MoveList } = await import("/page/js/replay/move_list.js");
            const network = { name: "n", temperature: 300, value_unit: "points", average: 210000 };
            const legal = [true, true, true, true];
            const answers = [1e-40, 0, Math.exp(-7), Math.exp(-6.9)].map((least) => {
                return { move: 3, legal, probabilities: [least, 0, 1e-39, 1] };
            });
            const worth = answers.map((answer) => worthOf(network, answer));
            const source = { infer: async () => answers };
            const moves = answers.map(() => ({ move: 0 }));
            const game = { boards: answers, scores: [0, 900, 1000, 2000], moves };
            const watch = { onProgress() {}, isWanted: () => true };
            const verdicts = await study(source, { model: network }, game, watch);
            const root = document.createElement("div");
            new MoveList(root, () => {}).judge(verdicts, worth[0].scale);
            return {
                costs: worth.map((each) => costText(each.scale, costOf(each, 0))),
                costly: verdicts.map(({ costly }) => costly),
                whole: costlyFrom({ ...worth[0], isWhole: true, values: [0, 5000] }, 7000, 0),
                mistakes: tally(verdicts, { model: network }).mistakes,
                worst: [...root.querySelectorAll(".worst li")].map((each) => each.textContent),
            };
        }"""
    )
    assert found["costs"] == [
        "at least 26,000 points",
        "at least 26,000 points",
        "2,100 points",
        "2,070 points",
    ]
    assert found["costly"] == [2100] * 4
    assert found["whole"] == 120
    assert found["mistakes"] == 3
    assert found["worst"] == [
        "Move 1: at least 26,000 points",
        "Move 0: at least 26,000 points",
        "Move 2: 2,100 points",
    ]
