"""The page follows the server: models that come and go, models without views, results in folders."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
from octofold_game.episodes import Episode, Episodes
from octofold_game.replays import ReplayWriter
from playwright.sync_api import expect
from support.page_server import ADMIN_TOKEN, Server, Visitor
from support.shipped import newest

SWIFT = f"swift/{newest('swift').name}"


def publish_without_views(models: Path) -> None:
    """Publish a copy of small whose graph has other names for the tensors with its views' answers."""
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
        expect(note).to_contain_text("its graph keeps no answers of single views")
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


def test_a_result_in_a_folder_is_watched_and_studied(go: Visitor, server: Server) -> None:
    folder = server.results / "monday" / "morning-noon" / "evaluate-first"
    folder.mkdir(parents=True)
    conditions = {"model": "first", "version": "", "precision": "", "sha256": None, "seed": 5}
    (folder / "conditions.json").write_text(json.dumps(conditions))
    episodes = Episodes(5, range(4))
    with ReplayWriter(folder / "games.replay") as writer:
        while len(episodes.running):
            for game in episodes.step(episodes.legal.argmax(axis=1)):
                writer.append(game)
    with go("/#watch") as visit:
        card = visit.page.get_by_role("link", name="first")
        expect(card).to_contain_text("monday/morning-noon/evaluate-first")
        card.click()
        expect(visit.page.locator(".facts")).to_contain_text("4")
        visit.page.get_by_text("Look at the finished games").click()
        expect(visit.page.locator("#game-list option")).to_have_count(4)
        visit.page.reload()
        expect(visit.page.locator("#game-list option")).to_have_count(4)


def test_running_games_count_as_what_they_have_reached(go: Visitor, server: Server) -> None:
    folder = server.results / "evaluate-running"
    folder.mkdir(parents=True)
    conditions = {"model": "second", "version": "", "precision": "", "sha256": None, "seed": 5}
    (folder / "conditions.json").write_text(json.dumps(conditions))
    boards = [np.array([exponent, *[0] * 15], np.uint8) for exponent in (11, 10)]
    with ReplayWriter(folder / "games.replay") as writer:
        for game, board in enumerate(boards):
            writer.append(Episode(game, 5, 17, board, bytes(1), 10_000 * (2 - game), board))
    live = {"player": "second", "seed": 5, "games": 16, "updated": 0, "finished": 2, "moves_per_second": 100}
    live |= {"running_scores": [30_000] * 14, "running_exponents": [11] * 14}
    live["boards"] = [{"game": 2, "board": [11, *[0] * 15], "score": 30_000, "moves": 1_000}]
    (folder / "live.json").write_text(json.dumps(live))
    with go("/#watch/evaluate-running") as visit:
        row = visit.page.locator(".reached tr", has_text="2048")
        expect(row).to_contain_text(re.compile(r"9[34](\.\d)?\s?%.* to "))
        expect(visit.page.locator(".reached caption")).to_contain_text("of 2 finished and 14 running games")
        expect(visit.page.locator(".facts")).to_contain_text("at least 28,125")
        expect(
            visit.page.get_by_text("The 14 games that still run count as what they have reached.")
        ).to_be_visible()
