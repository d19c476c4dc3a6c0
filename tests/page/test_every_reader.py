"""For an evaluation in any state, all commands and pages show the same words and figures, or the same
reason."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from octofold_client.evaluation.intervals import average_interval
from octofold_client.evaluation.report import markdown
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.terminal.markdown import print_markdown
from octofold_game.replays import ReplayWriter, read_replays
from playwright.sync_api import expect
from rich.console import Console
from support.commands import Command, octofold
from support.page_server import Server, Visitor
from support.replays import corner_games, write_result
from support.waiting import wait_for

PLAYER = ["evaluate", "--player", "random", "--parallel", "200"]
GAMES = 4_000
SECONDS = 60


def play(folder: Path, games: int, *more: str) -> None:
    done = octofold(*PLAYER, "--games", str(games), "--out", folder, *more)
    assert done.returncode == 0, done


@contextmanager
def begun(folder: Path) -> Iterator[Command]:
    """Run an evaluation until some of its games are finished."""
    replays = folder / "games.replay"
    before = replays.stat().st_size if replays.exists() else 0
    command = Command(*PLAYER, "--games", str(GAMES), "--out", folder)
    try:
        wait_for(lambda: replays.exists() and replays.stat().st_size > before + 10_000, process=command)
        yield command
    finally:
        command.close()


def ended_by(folder: Path, number: signal.Signals) -> None:
    with begun(folder) as command:
        command.send_signal(number)
        command.wait(SECONDS)


@contextmanager
def finished(folder: Path) -> Iterator[None]:
    play(folder, 40)
    yield


@contextmanager
def running(folder: Path) -> Iterator[None]:
    with begun(folder) as command:
        command.send_signal(signal.SIGSTOP)  # stopped, so that all readers see the same games
        yield


@contextmanager
def extended(folder: Path) -> Iterator[None]:
    play(folder, 20)
    assert octofold("report", folder).returncode == 0
    ended_by(folder, signal.SIGINT)
    yield


@contextmanager
def killed(folder: Path) -> Iterator[None]:
    ended_by(folder, signal.SIGKILL)
    yield


@contextmanager
def merged_with_a_gap(folder: Path) -> Iterator[None]:
    parts = [folder.parent / f".part{number}" for number in (1, 2)]
    for number, part in enumerate(parts, 1):
        play(part, 40, "--slice", f"{number}/2")
    assert octofold("merge", *parts, "--out", folder).returncode == 0
    episodes = list(read_replays(folder / "games.replay"))
    (folder / "games.replay").unlink()
    with ReplayWriter(folder / "games.replay") as writer:
        for episode in episodes[:-1]:  # without the last game, whose absence leaves no gap in the numbers
            writer.append(episode)
    yield


def read_by_all(folder: Path, other: Path, go: Visitor) -> dict[str, str]:
    """Return the text of every reader about a result, without line breaks in sentences."""
    said = {}
    described = octofold("report", folder, "--json", "--html")
    assert described.returncode == 0, described
    content = json.loads((folder / "result.json").read_text())
    assert json.loads(described.stdout)["unfinished"] == content["unfinished"]
    statistics = content["statistics"]
    said["JSON"] = content["unfinished"] or _figures(statistics["average"], *statistics["average_interval"])
    said["pipe"] = octofold("report", folder).stdout
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=300)
    print_markdown(markdown(Evaluation.of_folder(ResultFolder(folder))), console)
    said["terminal"] = terminal.getvalue()
    said["Markdown"] = (folder / "report.md").read_text()
    said["HTML"] = unescape((folder / "report.html").read_text())
    compared = octofold("compare", other, folder, "--html", "--json", "--out", folder.parent / "compared")
    assert compared.returncode == 0, compared
    player = json.loads(compared.stdout)["players"][1]
    assert (player["rank"] is None) is (player["unfinished"] is not None)
    interval = player["average_interval"] or (0, 0)
    said["compare, JSON"] = player["unfinished"] or _figures(player["average"], *interval)
    for kind in ("md", "html"):
        said[f"compare, {kind}"] = unescape((folder.parent / "compared" / f"comparison.{kind}").read_text())
    with go("/#watch") as visit:
        card = visit.page.locator(".card-box").filter(has_text=f"· {folder.name}")
        said["page, ratings"] = visit.page.locator(".ratings").inner_text()
        said["page, card"] = card.inner_text()
        card.get_by_role("link").click()
        expect(visit.page.locator(".facts")).to_contain_text("Average")
        said["page, result"] = visit.page.locator(".watched").first.inner_text()
        visit.run(f"location.hash = '#watch/{other.name}/{folder.name}'")
        expect(visit.page.locator("#tab-watch .verdict")).to_be_visible()
        said["page, compared"] = visit.page.locator("#tab-watch .watched").last.inner_text()
    return said


def _figures(average: float, low: float, high: float) -> str:
    return f"{average:,.0f} {low:,.0f} to {high:,.0f}"


@pytest.mark.parametrize("state", [finished, running, extended, killed, merged_with_a_gap])
def test_every_command_and_page_shows_the_same_figures_or_the_same_reason(
    state: Callable[[Path], AbstractContextManager[None]], go: Visitor, server: Server
) -> None:
    folder = server.results / state.__name__
    other = write_result(server.results / "other", corner_games(40, seed=0))
    try:
        with state(folder):
            scores = np.array([episode.score for episode in read_replays(folder / "games.replay")])
            said = read_by_all(folder, other, go)
    finally:  # the rating list counts all results of a player
        shutil.rmtree(server.results)
        server.results.mkdir()
    average, interval = f"{scores.mean():,.0f}", average_interval(scores)
    assert interval is not None
    limits = f"{interval[0]:,.0f} to {interval[1]:,.0f}"
    planned = 40 if state in (finished, merged_with_a_gap) else GAMES
    reason = f"Only {len(scores):,} of {planned:,} games are finished. Long games end last, so "
    for reader, text in said.items():
        if state is finished:
            assert average in text, reader
            assert limits in text or reader == "page, card", reader
            assert "games are finished" not in text, reader
        else:
            assert reason in " ".join(text.split()), reader
            assert limits not in text, reader
            # A comparison shows the average of the other player, too, which can be the same number.
            if "html" not in reader.lower() and "compare" not in reader:
                assert not re.search(rf"(?<!\d)(?<!\d[,.]){average}(?![,.]?\d)", text), reader
