"""Evaluations against a real server: what they keep and refuse, and that they go on where they stopped."""

import importlib.metadata
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from octofold_client import Client, EvaluationError, FolderInUse, OtherEvaluation
from octofold_client.contenders.served_model import ServedModel, ServedSource, select
from octofold_client.evaluation.evaluate import evaluate
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.terminal.progress import progress_on
from octofold_game.contract.model import GraphFile
from octofold_game.referee import ReplayError
from octofold_game.replays import ReplayWriter, read_replays
from rich.console import Console
from support.replays import replays_of

Run = Callable[..., Evaluation]
GAMES = 6


def up_to(selected: ServedModel, largest_exponent: int) -> ServedModel:
    assert selected.version.card is not None
    card = msgspec.structs.replace(selected.version.card, largest_exponent=largest_exponent)
    return replace(selected, version=replace(selected.version, card=card))


def brief(client: Client) -> ServedModel:
    """The model, whose games end with the first tile of 128."""
    return up_to(select(client.list_models()), 6)


@pytest.fixture
def run(target: str, tmp_path: Path) -> Run:
    """Runs an evaluation into tmp_path/NAME; `tell` changes what it is told about the model."""

    def run(
        name: str = "out",
        games: int = GAMES,
        seed: int = 3,
        parallel: int = GAMES,
        tell: Callable[[ServedModel], ServedModel] = lambda selected: selected,
    ) -> Evaluation:
        with Client(target) as client:
            served = brief(client)
            return evaluate(
                [ServedSource(client, served)],
                tell(served),
                ResultFolder(tmp_path / name),
                seed=seed,
                games=games,
                parallel=parallel,
                progress=progress_on(Console(file=io.StringIO()), games, "games"),
            )

    return run


@pytest.fixture(scope="module")
def played(target: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `run` leaves."""
    folder = tmp_path_factory.mktemp("played") / "out"
    with Client(target) as client:
        served = brief(client)
        result = ResultFolder(folder)
        progress = progress_on(Console(file=io.StringIO()), GAMES, "games")
        evaluate(
            [ServedSource(client, served)],
            served,
            result,
            seed=3,
            games=GAMES,
            parallel=GAMES,
            progress=progress,
        )
    return folder


@pytest.fixture
def out(played: Path, tmp_path: Path) -> Path:
    """A copy of it, where `run` plays."""
    return Path(shutil.copytree(played, tmp_path / "out"))


def result_of(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def test_a_seed_fixes_the_games_however_many_run_at_once(run: Run, tmp_path: Path, played: Path) -> None:
    all_games = replays_of(played)
    for games, parallel in ((2, 1), (GAMES, 4), (GAMES, 1024)):
        folder = tmp_path / str(parallel)
        run(folder.name, games=games, parallel=parallel)
        assert replays_of(folder) == {game: all_games[game] for game in range(games)}
        assert result_of(folder)["scores"] == result_of(played)["scores"][:games]


def test_another_seed_gives_other_games(run: Run, tmp_path: Path, played: Path) -> None:
    run("other", seed=2)
    assert replays_of(tmp_path / "other") != replays_of(played)


def test_the_result_names_everything_that_it_depends_on(run: Run, tmp_path: Path) -> None:
    evaluation = run()
    result = result_of(tmp_path / "out")
    assert result == json.loads(json.dumps(evaluation.to_json()))
    assert result["schema"] == 4
    assert (result["model"], result["version"], result["precision"]) == ("small", "1", "fp32")
    assert (result["seed"], result["games"], result["decision_rule"]) == (3, GAMES, "vote")
    assert result["server_version"] == importlib.metadata.version("octofold")
    assert result["sha256"] == result["card"]["precisions"]["fp32"]["sha256"]
    replays = replays_of(tmp_path / "out")
    assert [game["game"] for game in result["scores"]] == list(range(GAMES))
    assert [game["score"] for game in result["scores"]] == [replays[game][2] for game in range(GAMES)]
    assert result["statistics"]["average"] == pytest.approx(
        sum(replay[2] for replay in replays.values()) / GAMES
    )
    assert result["run"]["moves"] == sum(len(replay[1]) for replay in replays.values())
    assert result["run"]["inference_us"] > 0
    assert not list((tmp_path / "out").glob(".*"))


def test_more_games_are_added_to_those_there_are(run: Run, tmp_path: Path, played: Path) -> None:
    run("grown", games=2)
    grown = run("grown")
    assert json.loads(json.dumps(grown.to_json()))["scores"] == result_of(played)["scores"]
    assert replays_of(tmp_path / "grown") == replays_of(played)
    assert grown.run is not None
    assert grown.run.moves < sum(game.moves for game in grown.games)


def test_fewer_games_are_reported_on_without_playing_or_losing_any(run: Run, out: Path) -> None:
    files = [out / name for name in ("result.json", "report.md")]
    before = [file.read_bytes() for file in files]
    evaluation = run(games=4)
    assert [file.read_bytes() for file in files] == before
    assert len(evaluation.games) == 4
    assert evaluation.run is not None
    assert evaluation.run.moves_per_second is None
    assert len(replays_of(out)) == GAMES


def test_a_result_of_more_games_that_are_lost_is_replaced(run: Run, out: Path) -> None:
    (out / "games.replay").unlink()
    run(games=2)
    assert result_of(out)["games"] == 2


def test_a_record_that_was_cut_short_is_played_again(run: Run, out: Path) -> None:
    whole = replays_of(out)
    replays = out / "games.replay"
    replays.write_bytes(replays.read_bytes()[:-30])
    run()
    assert replays_of(out) == whole


def test_zeros_that_a_power_cut_left_are_cut_off_and_told(out: Path, target: str) -> None:
    whole = replays_of(out)
    replays = out / "games.replay"
    replays.write_bytes(replays.read_bytes()[:-200] + bytes(4296))
    told = io.StringIO()
    with Client(target) as client:
        served = brief(client)
        evaluate(
            [ServedSource(client, served)],
            served,
            ResultFolder(out),
            seed=3,
            games=GAMES,
            parallel=GAMES,
            progress=progress_on(Console(file=told), GAMES, "games"),
        )
    assert f"{replays}: cut off " in told.getvalue()
    assert "bytes after the last whole game" in told.getvalue()
    assert replays_of(out) == whole


def test_a_damaged_replay_file_is_refused_and_left_alone(run: Run, out: Path) -> None:
    replays = out / "games.replay"
    content = bytearray(replays.read_bytes())
    content[200] ^= 1
    replays.write_bytes(content)
    with pytest.raises(ReplayError, match=str(replays)):
        run()
    assert replays.read_bytes() == content


def newer(selected: ServedModel) -> ServedModel:
    return replace(selected, version=replace(selected.version, version="2"))


def other_file(selected: ServedModel) -> ServedModel:
    assert selected.version.card is not None
    other = GraphFile(file="model.onnx", sha256="0" * 64)
    card = msgspec.structs.replace(selected.version.card, precisions={"fp32": other})
    return replace(selected, version=replace(selected.version, card=card))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 4}, "seed 3, not 4"),
        ({"tell": newer}, "version 1, not 2"),
        ({"tell": other_file}, "sha256 .*, not 0000"),
    ],
)
def test_games_of_other_conditions_are_not_mixed_in(
    run: Run, out: Path, change: dict[str, Any], message: str
) -> None:
    before = replays_of(out)
    with pytest.raises(OtherEvaluation, match=message):
        run(games=2 * GAMES, **change)
    assert replays_of(out) == before


@pytest.mark.parametrize("file", ["games.replay", "unfinished.replay"])
def test_games_of_another_seed_or_that_occur_twice_are_not_continued(
    run: Run, tmp_path: Path, out: Path, file: str
) -> None:
    run("other", seed=4, games=2)
    (out / file).write_bytes((tmp_path / "other" / "games.replay").read_bytes())
    with pytest.raises(ReplayError, match=rf"out/{file}: game \d+ of seed 4 has another seed than 3"):
        run(games=14)
    own = list(read_replays(out / "games.replay")) if file == "unfinished.replay" else []
    if own:
        (out / file).unlink()
        with ReplayWriter(out / file) as writer:
            for game in (20, 20):
                writer.append(replace(own[0], game=game))
        with pytest.raises(ReplayError, match=rf"out/{file}: game 20 of seed 3 occurs twice"):
            run(games=14)


def test_replays_without_conditions_are_not_continued(run: Run, out: Path) -> None:
    (out / "conditions.json").unlink()
    with pytest.raises(EvaluationError, match=r"conditions\.json is missing"):
        run()


def test_games_are_not_written_among_other_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.md").write_text("mine")
    with pytest.raises(EvaluationError, match="out is not empty and holds no games; choose another folder"):
        run()
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["thesis.md"]


CONDITIONS = '"version": "", "precision": "", "sha256": "", "seed": 3'


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"model": "small"}',
        f'{{"model": "\\ud800", {CONDITIONS}}}',
        f'{{"model": "small", {CONDITIONS}, "slice": {{"number": 1, "of": 1, "games": {10**30}}}}}',
    ],
)
def test_damaged_conditions_are_refused(run: Run, tmp_path: Path, content: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "conditions.json").write_text(content)
    with pytest.raises(EvaluationError, match=r"conditions.json is damaged"):
        run()


def test_two_evaluations_never_share_a_folder_at_a_time(run: Run, out: Path) -> None:
    before = replays_of(out)
    with ReplayWriter(out / "games.replay"):
        with pytest.raises(FolderInUse, match=r"another program is playing games into .*out; choose"):
            run(games=GAMES + 1)
        assert replays_of(out) == before
    run(games=GAMES + 1)
    assert len(replays_of(out)) == GAMES + 1


def test_a_game_that_outgrew_the_model_is_named(run: Run) -> None:
    evaluation = run(games=5, tell=lambda selected: up_to(selected, 5))
    assert evaluation.summary is not None
    assert evaluation.summary.outgrown_games
    assert all(game.outgrown == (game.largest_tile == 64) for game in evaluation.games)
