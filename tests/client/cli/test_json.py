"""`--json` prints one object and nothing else on standard output; errors are the same as without it."""

import json
from pathlib import Path
from typing import Any

from octofold_client.rpc.client import Client
from support.commands import failure, octofold
from support.servers import served

CORNER = "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1"
OVER = ",".join(["1,2,1,2,2,1,2,1"] * 2)
STRENGTH = {
    "games": 1000,
    "seed": 1,
    "precision": "int8",
    "average": 67855.2,
    "average_interval": [65006.6, 70703.9],
    "median": 65856,
    "best": 320796,
    "reached": [],
    "command": "octofold evaluate",
}


def printed(*arguments: str | Path, folder: Path, stdin: str = "") -> dict[str, Any]:
    done = octofold(*arguments, "--json", folder=folder, stdin=stdin)
    assert done.returncode == 0, done
    content: dict[str, Any] = json.loads(done.stdout)
    assert content["schema"] >= 1
    return content


def test_moves_for_a_board_and_for_a_file_are_json_objects(target: str, tmp_path: Path) -> None:
    one = printed("move", CORNER, "--target", target, folder=tmp_path)
    with Client(target) as client:
        answer = client.next_move([int(cell) for cell in CORNER.split()])
    assert (one["model"], one["version"]) == ("small", "1")
    assert list(one["moves"][0]["probabilities"]) == ["up", "right", "down", "left"]
    assert list(one["moves"][0]["probabilities"].values()) == answer.probabilities.tolist()
    many = printed("move", "--target", target, folder=tmp_path, stdin=f"{CORNER}\n{OVER}\n")
    assert many["moves"][0] == one["moves"][0]
    assert many["moves"][1]["move"] is None


def test_evaluations_are_listed_with_their_figures_and_files(target: str, tmp_path: Path) -> None:
    options = ["--games", "3", "--target", target]
    found = printed("evaluate", "--model", "small", "--player", "random", *options, folder=tmp_path)
    served, local = found["evaluations"]
    assert (served["model"], local["model"]) == ("small", "random")
    result = json.loads((tmp_path / served["files"]["result"]).read_text())
    assert served["statistics"] == result["statistics"]
    assert "scores" not in served


def test_models_show_the_strength_of_their_cards(publish_model: Any, tmp_path: Path) -> None:
    publish_model(tmp_path / "models", strength=STRENGTH)
    publish_model(tmp_path / "models", name="new")
    with served(tmp_path / "models") as server:
        shown = octofold("models", "--target", server.target, folder=tmp_path).stdout
        found = printed("models", "--target", server.target, folder=tmp_path)
    line = "average score 67,855 (95% interval 65,007 to 70,704), best 320,796; 1,000 games in int8, seed 1"
    assert [shown.count(line), shown.count("average score")] == [1, 1]
    cards = {model["name"]: model["versions"][0]["card"] for model in found["models"]}
    assert cards["new"]["strength"] is None
    assert STRENGTH.items() <= cards["small"]["strength"].items()


def test_an_error_leaves_standard_output_empty(target: str, games: Path, tmp_path: Path) -> None:
    for arguments, word in (
        (("move", CORNER, "--model", "samll", "--target", target), "did you mean small?"),
        (("models", "--target", "127.0.0.1:1"), "127.0.0.1:1"),
        (("evaluate", "--model", "none", "--target", target), "no model none"),
        (("compare", str(games), "nowhere/else"), "nowhere"),
    ):
        assert word in failure(*arguments, "--json", folder=tmp_path)


def test_logs_and_load_tests_are_json_objects(target: str, tmp_path: Path) -> None:
    played = printed("evaluate", "--logs", "--player", "random", "--games", "2", folder=tmp_path)
    assert [(tmp_path / each["file"]).exists() for each in played["evaluations"][0]["logs"]] == [True]
    options = ("--target", target, "--concurrency", "1", "--windows", "1", "--window", "50ms")
    test = printed("loadtest", *options, "--out", "load", folder=tmp_path)
    assert test["steps"] == json.loads((tmp_path / "load" / "loadtest.json").read_text())["steps"]
    assert test["files"]["result"] == "load/loadtest.json"
