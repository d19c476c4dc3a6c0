"""What a report reads: which games it chooses, where runs are recorded, load tests, colors."""

import json
from contextlib import suppress
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from msgspec import to_builtins
from octofold_client.errors import EvaluationError, LoadTestError
from octofold_client.loadtest.loads import Closed, Counts, Load, Open
from octofold_client.loadtest.pictures import overlaid
from octofold_client.loadtest.result import LoadTest, StepResult, markdown, read_load_test
from octofold_client.loadtest.statistics import ServerCounters
from octofold_client.loadtest.steps import Limit, Plan, Step
from octofold_client.provenance import Provenance, record_run, runs_of
from octofold_client.studies.endings import read_analysis
from octofold_client.studies.html.elements import html, make, raw
from octofold_client.studies.html.results import ChosenGames
from octofold_game.drawing.figures import WIDE
from octofold_game.replays import read_replays
from support.commands import failure, octofold

ROOT = Path(__file__).parents[4]
COSTLY = {"game": 1, "move": 2, "board": [1] * 16, "made": 0, "better": 1, "values": [0.5] * 4, "cost": 0.1}
RUN = Provenance("octofold loadtest", "a machine", "2026-01-02 03:04 UTC", "0.2.0")


def test_a_report_chooses_the_worst_and_the_best_games_whatever_their_order(games: Path) -> None:
    episodes = list(read_replays(games / "games.replay"))
    by_score = sorted(episodes, key=lambda each: (each.score, each.game))
    for order in (episodes, episodes[::-1], by_score):
        chosen = ChosenGames({11})
        for start in range(0, len(order), 7):
            chosen.add(order[start : start + 7])
        assert [each.score for each in chosen.worst] == [each.score for each in by_score[:3]]
        assert [each.score for each in chosen.best] == [each.score for each in by_score[:-4:-1]]
        assert [each.game for each in chosen.others] == [11]


def test_a_run_that_plays_no_game_leaves_no_record(tmp_path: Path) -> None:
    with record_run(tmp_path):
        pass
    assert runs_of(tmp_path) == []
    with suppress(KeyboardInterrupt), record_run(tmp_path):
        (tmp_path / "unfinished.replay").write_bytes(b"a game")
        raise KeyboardInterrupt
    with record_run(tmp_path, command=False):
        (tmp_path / "games.replay").write_bytes(b"a game")
    first, second = runs_of(tmp_path)
    assert first.command
    assert not second.command
    assert first.machine == second.machine


@pytest.mark.parametrize("end", [EvaluationError("the server is gone"), KeyboardInterrupt()])
def test_a_run_that_a_full_disk_does_not_record_does_not_hide_what_ended_it(
    tmp_path: Path, end: BaseException
) -> None:
    (tmp_path / "runs.jsonl").symlink_to("/dev/full")

    @record_run(tmp_path)
    def play() -> None:
        (tmp_path / "games.replay").write_bytes(b"a game")
        raise end

    with pytest.raises(type(end)) as failure:
        play()
    assert failure.value is end


def load_test(limit: Limit | None) -> LoadTest:
    test = LoadTest(
        target="a:1",
        model="m",
        version="1",
        precision="int8",
        sha256="ab",
        server_version="0.2.0",
        form="packed:4",
        boards_a_call=4,
        boards_from="games",
        processes=1,
        seed=0,
        timeout_seconds=5.0,
        **asdict(Plan()),
        finished=True,
        run=RUN,
        limit=limit,
    )
    loads: list[Load] = [Closed(1), Closed(4, 0.1), Open(100.0)]
    for number, load in enumerate(loads):
        step = Step(load, complete=True)
        for window in range(3):
            counts = Counts(seconds=2.0, sent=40, boards=160, late=3 * number, cpu_shares=(0.9,))
            counts.sent_again = number
            for value in range(40):
                counts.latencies.record(1000 + 731 * value * (number + 1))
            counts.errors["UNAVAILABLE"], counts.last_error = number, "gone"
            step.windows.append(counts)
            step.counters.append(ServerCounters(*(1000 * (window + 1) * scale for scale in range(1, 7))))
        step.counters.append(ServerCounters(*(5000 * scale for scale in range(1, 7))))
        test.steps.append(StepResult.of(step, limit))
    return test


@pytest.mark.parametrize(("first", "loads"), [("closed", [100, 200, 300]), ("open", [200, 300, 400])])
def test_no_line_of_a_load_test_turns_back_where_throughput_falls(
    first: Literal["closed", "open"], loads: list[int]
) -> None:
    test = load_test(None)
    for step, callers in zip(test.steps, (100, 300, 200), strict=True):
        step.loop, step.concurrency, step.offered_per_second = "closed", callers, 500.0 - callers
    test.steps[0].loop = first
    (figure,) = overlaid({"m": test}, WIDE).values()
    assert [axes.get_title(loc="left")[-5:] for axes in figure.axes] == ["(p50)", "(p90)", "(p99)"]
    assert [np.array(axes.lines[0].get_xdata()).tolist() for axes in figure.axes] == [loads] * 3


@pytest.mark.parametrize("limit", [None, Limit(99.0, 20.0, 90.0)])
def test_a_load_test_is_read_as_it_was_written(limit: Limit | None, tmp_path: Path) -> None:
    test = load_test(limit)
    test.write(tmp_path)
    kept = read_load_test(tmp_path)
    assert kept == test
    assert "3 calls sent again" in markdown(kept)
    assert kept.run == RUN


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 9}, "no load test of schema 1"),
        ({"steps": [{}]}, "is damaged"),
        ({"target": None}, "is damaged"),
        ({"model": 5}, "is damaged"),
        ({"ramp_seconds": "1"}, "is damaged"),
        ({"boards_a_call": 10**400}, "is damaged"),
        ({"limit": {"percentile": 99, "milliseconds": 20, "highest_rate": "fast"}}, "is damaged"),
    ],
)
def test_a_damaged_load_test_is_named(change: dict[str, object], message: str, tmp_path: Path) -> None:
    (tmp_path / "loadtest.json").write_text(json.dumps(to_builtins(load_test(None)) | change))
    with pytest.raises(LoadTestError, match=message) as raised:
        read_load_test(tmp_path)
    assert str(tmp_path / "loadtest.json") in str(raised.value)


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": 0},
        {"seconds": "inf"},
        {"late_sends": -1},
        {"concurrency": 10**400, "rate": None},
        {"server": {"calls": 1, "queue_ms": "1", "inference_ms": 1, "rest_ms": 1, "boards_per_batch": 1}},
        {"histogram_us": {"count": 1, "sum": 10**400, "max": 1, "buckets": [[1, 1]]}},
    ],
)
def test_a_damaged_step_of_a_load_test_is_named(change: dict[str, object], tmp_path: Path) -> None:
    content = to_builtins(load_test(None))
    content["steps"][0] |= change
    (tmp_path / "loadtest.json").write_text(json.dumps(content))
    with pytest.raises(LoadTestError, match=r"loadtest\.json is damaged"):
        read_load_test(tmp_path)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"schema": 1, "seed": NaN}', '{"schema": 1e999}'])
def test_kept_figures_that_are_not_json_are_named(content: str, tmp_path: Path) -> None:
    for name in ("loadtest.json", "analysis.json", "runs.jsonl"):
        (tmp_path / name).write_text(content)
    with pytest.raises(LoadTestError, match=r"loadtest\.json is damaged"):
        read_load_test(tmp_path)
    with pytest.raises(EvaluationError, match=r"analysis\.json is damaged"):
        read_analysis(tmp_path)
    assert runs_of(tmp_path) == []


@pytest.mark.parametrize(
    "change",
    [
        {"endings": [{"largest_tile": 512, "games": 10**400, "quarters": [1, 0, 0, 0, 0]}]},
        {"costliest": [COSTLY | {"board": [-1, *[1] * 15]}]},
        {"costliest": [COSTLY | {"better": 10**30}]},
        {"by_stage": {}},
        {"all": [1]},
    ],
)
def test_a_damaged_analysis_is_named(change: dict[str, object], tmp_path: Path) -> None:
    group = {
        "label": "all",
        "positions": 1,
        "empty_cells": 1.0,
        "choices": 2.0,
        "judged": 0,
        "agreement": None,
        "agreement_interval": None,
        "cost": None,
        "cost_share": None,
    }
    content: dict[str, object] = {"schema": 1, "last_moves": 5, "games": 1, "judged": 0, "judge": None}
    content |= {"all": group, "by_stage": [], "by_distance": [], "endings": [], "costliest": [COSTLY]}
    (tmp_path / "analysis.json").write_text(json.dumps(content))
    assert read_analysis(tmp_path) is not None
    (tmp_path / "analysis.json").write_text(json.dumps(content | change))
    with pytest.raises(EvaluationError, match=r"analysis\.json is damaged"):
        read_analysis(tmp_path)


class Tags(HTMLParser):
    """The elements of a page and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.text, self.titles = list[str](), "", list[str | None]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.titles += [value for name, value in attrs if name == "title"]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_no_text_becomes_markup() -> None:
    text = "</p><script>x</script>\"'&amp;"
    found = Tags(html(make("head"), make("body", make("p", text, title=text))))
    assert found.tags == ["html", "head", "body", "p"]
    assert (found.text.strip(), found.titles) == (text, [text])
    strange = html(make("head"), make("body", "a\x00b\x1bc\ud800d"))
    assert "a\ufffdb\ufffdc\ufffdd" in strange
    with pytest.raises(ValueError, match="neither"):
        raw("script", "'</script>'")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one", "two"], "several folders need --html"),
        (["one", "two", "--html", "--plots"], "--plots saves the pictures of one folder"),
        (["one", "--out", "x.html"], "--out names the file of --html"),
        (["one", "--html", "--out", "gone/x.html"], "--out: there is no gone"),
        (["one", "--html", "--out", "/"], "--out: / is a folder, not a file"),
        (["one"] * 9 + ["--html"], "a report shows at most 8 folders, got 9"),
        (["one", "./one", "--html"], "one is given twice"),
        (["one", "--html", "--out", "games.replay"], "--out: games.replay must end with .html"),
    ],
)
def test_flags_that_do_not_fit_are_refused_in_a_line(arguments: list[str], message: str) -> None:
    assert message in failure("report", *arguments, code=2)


def test_a_command_names_the_page_that_it_wrote_and_what_is_not_there(
    games: Path, worse_games: Path, tmp_path: Path
) -> None:
    load_test(None).write(tmp_path)
    file = tmp_path / "all.html"
    done = octofold("report", games, worse_games, tmp_path, "--html", "--out", file)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"page:    {file}\n", "")
    text = file.read_text()
    for said in (
        "greedy version 1",
        "timid version 1",
        "m version 1, packed:4",
        "octofold report",
        RUN.machine,
    ):
        assert said in text
    assert not list(tmp_path.glob("*.partial"))
    assert failure("report", tmp_path) == f"{tmp_path} contains a load test, which only --html shows"
    compared = octofold("compare", games, worse_games, "--html", "--out", tmp_path)
    assert compared.stderr.endswith(f"page:    {tmp_path / 'comparison.html'}\n")
    file.unlink()
    assert failure("report", games, tmp_path / "gone", "--html", "--out", file) == (
        f"there is no {tmp_path / 'gone'}"
    )
    assert not file.exists()
