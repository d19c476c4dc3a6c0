"""Data of a report: chosen games, recorded runs, load tests, colors."""

import json
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path

import pytest
from octofold_client.errors import EvaluationError
from octofold_client.provenance import Provenance, record_run, runs_of
from octofold_client.studies.analysis import read_analysis
from octofold_client.studies.html.elements import html, make, raw
from octofold_client.studies.html.parts import read_parts
from octofold_game.replays import read_replays
from support.commands import failure, octofold

ROOT = Path(__file__).parents[4]
COSTLY = {"game": 1, "move": 2, "board": [1] * 16, "made": 0, "better": 1, "values": [0.5] * 4, "cost": 0.1}
RUN = Provenance("octofold loadtest", "a machine", "2026-01-02 03:04 UTC", "0.2.0")


def test_a_report_shows_the_worst_and_the_best_games(games: Path) -> None:
    (part,) = read_parts([games])
    episodes = list(read_replays(games / "games.replay"))
    by_score = sorted(episodes, key=lambda each: (each.score, each.game))
    assert [each.game for each in part.games["Worst"]] == [each.game for each in by_score[:3]]
    assert [each.score for each in part.games["Best"]] == [each.score for each in by_score[:-4:-1]]


def test_a_run_that_plays_no_game_is_not_recorded(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("content", ["[" * 100_000, '{"schema": 1, "seed": NaN}', '{"schema": 1e999}'])
def test_a_stored_result_that_is_not_json_is_named(content: str, tmp_path: Path) -> None:
    for name in ("analysis.json", "runs.jsonl"):
        (tmp_path / name).write_text(content)
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
        {"schema": 2},
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
    content |= {"positions": 5, "average_score": 1.0, "cost_of_a_game": None}
    content |= {"all": group, "by_stage": [], "by_distance": [], "endings": [], "costliest": [COSTLY]}
    (tmp_path / "analysis.json").write_text(json.dumps(content))
    assert read_analysis(tmp_path) is not None
    (tmp_path / "analysis.json").write_text(json.dumps(content | change))
    with pytest.raises(EvaluationError, match=r"analysis\.json is damaged, or from another version"):
        read_analysis(tmp_path)


class Tags(HTMLParser):
    """A parser that collects the elements and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.text, self.titles = list[str](), "", list[str | None]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.titles += [value for name, value in attrs if name == "title"]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_text_never_becomes_markup() -> None:
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
        (["one", "two"], "several folders require --html"),
        (["one", "--html", "--out", "gone/x.html"], "--out: there is no gone"),
        (["one"] * 9 + ["--html"], "a report shows at most 8 folders, got 9"),
        (["one", "./one", "--html"], "each folder must be given once, got one twice"),
        (["one", "--html", "--out", "games.replay"], "--out must end with .html, got games.replay"),
    ],
)
def test_invalid_flags_are_refused_in_one_line(arguments: list[str], message: str) -> None:
    assert message in failure("report", *arguments, code=2)


def test_a_command_names_the_written_page_and_missing_folders(
    games: Path, worse_games: Path, tmp_path: Path
) -> None:
    file = tmp_path / "all.html"
    done = octofold("report", games, worse_games, "--html", "--out", file)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"page:    {file}\n", "")
    text = file.read_text()
    for said in ("greedy version 1", "timid version 1", "octofold report"):
        assert said in text
    assert not list(tmp_path.glob("*.partial"))
    compared = octofold("compare", games, worse_games, "--html", "--out", tmp_path)
    assert compared.stderr.endswith(f"page:    {tmp_path / 'comparison.html'}\n")
    file.unlink()
    assert failure("report", games, tmp_path / "gone", "--html", "--out", file) == (
        f"there is no {tmp_path / 'gone'}"
    )
    assert not file.exists()
