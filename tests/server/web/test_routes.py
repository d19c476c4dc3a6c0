"""The routes of the page: types, caches, the security policy, tokens, bad input, plain moves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from octofold_game.rules import MOVE_NAMES
from octofold_server.web.results import Results
from support.fakes import FakeBackend, fake_moves
from support.servers import Ask, ServeAll, Served

BOARD = "0112033400120001"
RESULT = {"model": "fake", "version": "1", "precision": "fp32", "sha256": None, "seed": 7}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results" / "evaluate-fake"
    folder.mkdir(parents=True)
    (folder / "conditions.json").write_text(json.dumps(RESULT))
    (folder / "games.replay").write_bytes(b"OctoGame and more")
    (folder / "secret.txt").write_text("not for the page")
    return folder


@pytest.fixture
def page(serve_all: ServeAll, results: Path) -> Iterator[Served]:
    with serve_all(FakeBackend(), results=results.parent) as served:
        yield served


def test_the_page_is_served_with_its_type_and_a_strict_policy(ask: Ask, page: Served) -> None:
    reply = ask(page, "GET", "/")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = reply.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy  # no other host
    assert ask(page, "GET", "/page/js/main.js").headers["Content-Type"] == "text/javascript; charset=utf-8"


def test_a_file_in_the_browsers_cache_is_not_sent_again(ask: Ask, page: Served) -> None:
    tag = ask(page, "GET", "/").headers["ETag"]
    again = ask(page, "GET", "/", **{"If_None_Match": tag})
    assert (again.status, again.body) == (304, b"")
    assert ask(page, "GET", "/", **{"If_None_Match": '"other"'}).status == 200


@pytest.mark.parametrize(
    "path", ["/page/nothing.js", "/page/../routes.py", "/page/%2e%2e/routes.py", "/page/"]
)
def test_only_the_files_of_the_page_are_served(ask: Ask, page: Served, path: str) -> None:
    assert ask(page, "GET", path).status == 404


def test_moves_are_served_without_the_page(ask: Ask, serve_all: ServeAll) -> None:
    with serve_all(FakeBackend(), page=False) as served:
        assert ask(served, "GET", "/").status == 404
        assert ask(served, "GET", "/page/about").status == 404
        assert ask(served, "GET", f"/move?board={BOARD}").status == 200


def test_the_answer_of_move_is_one_word(ask: Ask, page: Served) -> None:
    board = np.array([[int(digit, 16) for digit in BOARD]], np.uint8)
    reply = ask(page, "GET", f"/move?board={BOARD}")
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert reply.body.decode() == f"{MOVE_NAMES[fake_moves(board).moves[0]]}\n"
    assert ask(page, "GET", "/move?board=" + 16 * "0").body == b"none\n"


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("", 400, "board must have 16 characters, got 0"),
        ("?board=7+6+5/1", 400, "board must have 16 characters, got 7: write the exponent of each cell"),
        ("?board=000000000000000z", 400, "board: row 4, column 4 must be one of"),
        ("?board=h000000000000000", 400, "cell 0: fake supports tiles up to 32768"),
        (f"?board={BOARD}&model=nobody", 404, "nobody"),
        (f"?board={BOARD}&board={16 * '1'}", 400, "the parameter board must have one value, got several"),
        (f"?board={BOARD}&search_time_us=60000000", 400, "unknown parameter 'search_time_us'"),
    ],
)
def test_an_invalid_request_is_refused_in_one_line(
    ask: Ask, page: Served, query: str, status: int, said: str
) -> None:
    reply = ask(page, "GET", f"/move{query}")
    assert reply.status == status
    assert said in reply.body.decode()
    assert reply.body.count(b"\n") == 1


def test_files_need_no_token_but_requests_for_data_do(ask: Ask, serve_all: ServeAll, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("friend\n")
    with serve_all(FakeBackend(), tokens=tokens) as served:
        assert ask(served, "GET", "/").status == 200
        for path in ("/page/about", "/page/results", f"/page/views?board={BOARD}", f"/move?board={BOARD}"):
            assert [ask(served, method, path).status for method in ("GET", "HEAD")] == [401, 401]
            assert ask(served, "GET", path, Authorization="Bearer stranger").status == 401
        assert ask(served, "GET", "/page/about", Authorization="Bearer friend").status == 200


def test_views_are_requested_like_moves(ask: Ask, page: Served) -> None:
    reply = ask(page, "GET", f"/page/views?board={BOARD}").json
    assert (reply["move"], reply["model"], reply["views"]) == (2, "fake", None)
    assert reply["why_no_views"]
    assert ask(page, "GET", "/page/views?board=1").status == 400


def test_results_are_listed_and_their_growing_files_are_read_in_pieces(
    ask: Ask, page: Served, results: Path
) -> None:
    (listed,) = ask(page, "GET", "/page/results").json
    assert (listed["name"], listed["conditions"]["seed"]) == (results.name, "7")
    path = f"/page/results/{results.name}/games.replay"
    first = ask(page, "GET", path)
    assert first.body == b"OctoGame and more"
    assert 0 <= float(first.headers["X-File-Age"]) < 3600
    with (results / "games.replay").open("ab") as file:
        file.write(b" games")
    assert ask(page, "GET", f"{path}?start=17").body == b" games"
    far = ask(page, "GET", f"{path}?start={10**15 - 1}")
    assert (far.status, far.body) == (200, b"")


def test_no_other_files_of_results_are_served(ask: Ask, page: Served, results: Path) -> None:
    (results / "live.json").symlink_to("/etc/passwd")
    assert ask(page, "GET", f"/page/results/{results.name}/secret.txt").status == 400
    assert ask(page, "GET", f"/page/results/{results.name}/live.json").body == b""
    assert ask(page, "GET", "/page/results/..%2f..%2fetc/games.replay").status in (400, 404)
    assert ask(page, "GET", "/page/results/../games.replay").status in (400, 404)
    assert ask(page, "GET", f"/page/results/{results.name}/games.replay?start=-1").status == 400


def add_result(folder: Path, seed: int) -> None:
    folder.mkdir(parents=True)
    (folder / "conditions.json").write_text(json.dumps({**RESULT, "seed": seed}))
    (folder / "games.replay").write_bytes(b"%d" % seed)


def test_results_in_folders_are_found_and_read_down_to_a_depth(ask: Ask, page: Served, results: Path) -> None:
    for name, seed in [
        ("monday/one", 1),
        ("monday/a/b/two", 2),
        ("monday/a/b/c/too-deep", 3),
        (".hidden/x", 4),
    ]:
        add_result(results.parent / name, seed)
    add_result(results / "inside-a-result", 5)
    listed = {each["name"]: each["conditions"]["seed"] for each in ask(page, "GET", "/page/results").json}
    assert listed == {results.name: "7", "monday/one": "1", "monday/a/b/two": "2"}
    assert ask(page, "GET", "/page/results/monday/a/b/two/games.replay").body == b"2"
    assert ask(page, "GET", "/page/results/monday%2Fone/games.replay").body == b"1"
    assert ask(page, "GET", "/page/results/monday/a/b/c/too-deep/games.replay").status == 400
    assert ask(page, "GET", "/page/results/monday/../monday/one/games.replay?start=0").status in (200, 400)
    assert ask(page, "GET", "/page/results/monday/%2e%2e/one/games.replay").status in (400, 404)
    assert ask(page, "GET", "/page/results/.hidden/x/games.replay").status == 400


def test_results_can_have_any_name_that_is_not_hidden(ask: Ask, page: Served, results: Path) -> None:
    names = ["my run", "2026-11-28T14:18", "lr@1e-3", "größe", "try(2)+old~1", "50%", "a#b?c", "結果"]
    for number, name in enumerate(names):
        add_result(results.parent / name, number)
    add_result(results.parent / ".hidden", 99)
    add_result(results.parent / "line\nbreak", 99)
    listed = {each["name"] for each in ask(page, "GET", "/page/results").json}
    assert listed == {results.name, *names}
    for number, name in enumerate(names):
        assert ask(page, "GET", f"/page/results/{quote(name)}/games.replay").body == b"%d" % number


def test_no_link_leads_out_of_the_results(ask: Ask, page: Served, results: Path, tmp_path: Path) -> None:
    add_result(tmp_path / "elsewhere" / "secret", 9)
    folder = results.parent
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    (folder / "straight").symlink_to(tmp_path / "elsewhere" / "secret")
    (folder / "folder").mkdir()
    (folder / "folder" / "deep").symlink_to(tmp_path / "elsewhere" / "secret")
    (folder / "around").symlink_to(folder)
    assert [each["name"] for each in ask(page, "GET", "/page/results").json] == [results.name]
    for name in ("link/secret", "straight", "folder/deep", f"around/{results.name}"):
        assert ask(page, "GET", f"/page/results/{name}/games.replay").status == 404


def test_a_search_for_results_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        add_result(tmp_path / f"result-{number}", number)
    assert len(Results(tmp_path, max_folders=6).list()) == 5  # the sixth folder is the root
    monkeypatch.setattr("octofold_server.web.results.MAX_ENTRIES", 4)
    assert len(Results(tmp_path).list()) == 4


def test_a_folder_with_many_folders_hides_no_result_beside_it(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / "a" / f"plain-{number}").mkdir(parents=True)
    add_result(tmp_path / "z", 1)
    assert [each["name"] for each in Results(tmp_path, max_folders=6).list()] == ["z"]
