"""Evaluations keep games, refuse other conditions, and continue after a stop."""

import importlib.metadata
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from octofold_client import EvaluationError, FolderInUse, OtherEvaluation, evaluate
from octofold_game.referee import ReplayError
from octofold_game.replays import ReplayWriter, read_replays
from support.json_files import read_json
from support.players import FirstLegal
from support.replays import replays_of

GAMES = 6


class Brief(FirstLegal):
    """A player whose games end with the first tile of 128."""

    largest_exponent = 6


def run(folder: Path, games: int = GAMES, seed: int = 3, **changed: Any) -> Any:
    return evaluate(changed.pop("player", Brief()), folder, games=games, seed=seed, **changed).evaluation


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result folder of `run`."""
    folder = tmp_path_factory.mktemp("played") / "out"
    run(folder)
    return folder


@pytest.fixture
def out(played: Path, tmp_path: Path) -> Path:
    """A copy of the result folder."""
    return Path(shutil.copytree(played, tmp_path / "out"))


def test_a_seed_fixes_the_games_whatever_the_number_in_flight(tmp_path: Path, played: Path) -> None:
    all_games = replays_of(played)
    for games, parallel in ((2, 1), (GAMES, 4), (GAMES, 1024)):
        folder = tmp_path / str(parallel)
        run(folder, games=games, parallel=parallel)
        assert replays_of(folder) == {game: all_games[game] for game in range(games)}
        result = read_json(folder / "result.json")
        assert result["scores"] == read_json(played / "result.json")["scores"][:games]
    run(tmp_path / "other", seed=2)
    assert replays_of(tmp_path / "other") != all_games


def test_the_result_names_everything_that_it_depends_on(target: str, tmp_path: Path) -> None:
    evaluation = evaluate(target, tmp_path, games=GAMES, seed=3).evaluation
    result = read_json(tmp_path / "result.json")
    assert result == json.loads(json.dumps(evaluation.to_json()))
    assert result["schema"] == 4
    assert (result["model"], result["version"], result["precision"]) == ("small", "1", "fp32")
    assert (result["seed"], result["games"], result["decision_rule"]) == (3, GAMES, "vote")
    assert result["server_version"] == importlib.metadata.version("octofold")
    assert result["sha256"] == result["card"]["precisions"]["fp32"]["sha256"]
    replays = replays_of(tmp_path)
    assert [game["game"] for game in result["scores"]] == list(range(GAMES))
    assert [game["score"] for game in result["scores"]] == [replays[game][2] for game in range(GAMES)]
    assert result["statistics"]["average"] == pytest.approx(
        sum(replay[2] for replay in replays.values()) / GAMES
    )
    assert result["run"]["moves"] == sum(len(replay[1]) for replay in replays.values())
    assert result["run"]["inference_us"] > 0
    assert not list(tmp_path.glob(".*"))


def test_a_larger_number_of_games_adds_to_the_existing_ones(tmp_path: Path, played: Path) -> None:
    run(tmp_path, games=2)
    grown = run(tmp_path)
    assert json.loads(json.dumps(grown.to_json()))["scores"] == read_json(played / "result.json")["scores"]
    assert replays_of(tmp_path) == replays_of(played)
    assert grown.run.moves < sum(game.moves for game in grown.games)


def test_a_smaller_number_of_games_is_reported_without_playing_or_losing_any(out: Path) -> None:
    files = [out / name for name in ("result.json", "report.md")]
    before = [file.read_bytes() for file in files]
    evaluation = run(out, games=4)
    assert [file.read_bytes() for file in files] == before
    assert len(evaluation.games) == 4
    assert evaluation.run.moves_per_second is None
    assert len(replays_of(out)) == GAMES
    (out / "games.replay").unlink()
    run(out, games=2)
    assert read_json(out / "result.json")["games"] == 2  # the other games are lost


def test_a_truncated_or_zeroed_last_record_is_reported_and_played_again(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, replays = replays_of(out), out / "games.replay"
    content = replays.read_bytes()
    for damaged in (content[:-30], content[:-200] + bytes(4296)):
        replays.write_bytes(damaged)
        run(out)
        assert replays_of(out) == whole
        told = capsys.readouterr().err
        assert f"{replays}: cut off " in told
        assert "bytes after the last whole game" in told


def test_a_damaged_replay_file_is_refused_and_not_changed(out: Path) -> None:
    replays = out / "games.replay"
    content = bytearray(replays.read_bytes())
    content[200] ^= 1
    replays.write_bytes(content)
    with pytest.raises(ReplayError, match=str(replays)):
        run(out)
    assert replays.read_bytes() == content


class Other(Brief):
    sha256 = "0" * 64


@pytest.mark.parametrize(
    ("change", "message"), [({"seed": 4}, "seed 3, not 4"), ({"player": Other()}, "sha256 .*, not 0000")]
)
def test_games_of_other_conditions_are_not_mixed_in(out: Path, change: dict[str, Any], message: str) -> None:
    before = replays_of(out)
    with pytest.raises(OtherEvaluation, match=message):
        run(out, games=2 * GAMES, **change)
    assert replays_of(out) == before


@pytest.mark.parametrize("file", ["games.replay", "unfinished.replay"])
def test_a_folder_with_duplicate_games_or_games_of_another_seed_is_not_continued(
    tmp_path: Path, out: Path, file: str
) -> None:
    run(tmp_path / "other", seed=4, games=2)
    own = list(read_replays(out / "games.replay"))
    (out / file).write_bytes((tmp_path / "other" / "games.replay").read_bytes())
    with pytest.raises(ReplayError, match=rf"out/{file}: game \d+ of seed 4 is in a folder of seed 3"):
        run(out, games=14)
    (out / file).unlink()
    with ReplayWriter(out / file) as writer:
        for game in (20, 20):
            writer.append(replace(own[0], game=game))
    with pytest.raises(ReplayError, match=rf"out/{file}: game 20 of seed 3 occurs twice"):
        run(out, games=14)


CONDITIONS = '"version": "", "precision": "", "sha256": "", "seed": 3'


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        f'{{"model": "\\ud800", {CONDITIONS}}}',
        f'{{"model": "small", {CONDITIONS}, "slice": {{"number": 1, "of": 1, "games": {10**30}}}}}',
    ],
)
def test_a_folder_without_conditions_or_with_damaged_ones_is_refused(out: Path, content: str) -> None:
    (out / "conditions.json").write_text(content)
    with pytest.raises(EvaluationError, match=r"conditions.json is damaged"):
        run(out)
    (out / "conditions.json").unlink()
    with pytest.raises(EvaluationError, match=r"conditions\.json is missing"):
        run(out)


def test_games_are_not_written_among_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.md").write_text("mine")
    with pytest.raises(EvaluationError, match="is not empty and contains no games; choose another folder"):
        run(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.md"]


def test_two_evaluations_never_write_into_one_folder_at_the_same_time(out: Path) -> None:
    before = replays_of(out)
    with ReplayWriter(out / "games.replay"):
        with pytest.raises(FolderInUse, match=r"another program is writing games into .*out; choose"):
            run(out, games=GAMES + 1)
        assert replays_of(out) == before
    run(out, games=GAMES + 1)
    assert len(replays_of(out)) == GAMES + 1


def test_a_game_that_outgrew_the_model_is_named(played: Path) -> None:
    outgrown = read_json(played / "result.json")["statistics"]["outgrown_games"]
    assert outgrown
    for game in read_json(played / "result.json")["scores"]:
        assert (game["game"] in outgrown) == game["outgrown"] == (game["largest_tile"] == 128)
