"""Evaluations against a real server: what they keep and refuse, and that they go on where they stopped."""

import importlib.metadata
import io
import json
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


@pytest.fixture
def run(target: str, tmp_path: Path) -> Run:
    """Runs an evaluation into tmp_path/NAME; `tell` changes what it is told about the model."""

    def run(
        name: str = "out",
        games: int = 12,
        seed: int = 3,
        parallel: int = 8,
        tell: Callable[[ServedModel], ServedModel] = lambda selected: selected,
    ) -> Evaluation:
        with Client(target) as client:
            served = select(client.list_models())
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


def result_of(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


@pytest.mark.parametrize("parallel", [1, 5, 1024])
def test_a_seed_fixes_the_games_however_many_run_at_once(run: Run, tmp_path: Path, parallel: int) -> None:
    run("all", games=6, parallel=6)
    run("some", games=6, parallel=parallel)
    assert replays_of(tmp_path / "some") == replays_of(tmp_path / "all")
    assert result_of(tmp_path / "some")["scores"] == result_of(tmp_path / "all")["scores"]


def test_another_seed_gives_other_games(run: Run, tmp_path: Path) -> None:
    run("one", seed=1)
    run("two", seed=2)
    assert replays_of(tmp_path / "one") != replays_of(tmp_path / "two")


def test_the_result_names_everything_that_it_depends_on(run: Run, tmp_path: Path) -> None:
    evaluation = run()
    result = result_of(tmp_path / "out")
    assert result == json.loads(json.dumps(evaluation.to_json()))
    assert result["schema"] == 3
    assert (result["model"], result["version"], result["precision"]) == ("small", "1", "fp32")
    assert (result["seed"], result["games"], result["decision_rule"]) == (3, 12, "vote")
    assert result["server_version"] == importlib.metadata.version("octofold")
    assert result["sha256"] == result["card"]["precisions"]["fp32"]["sha256"]
    replays = replays_of(tmp_path / "out")
    assert [game["game"] for game in result["scores"]] == list(range(12))
    assert [game["score"] for game in result["scores"]] == [replays[game][2] for game in range(12)]
    assert result["statistics"]["average"] == pytest.approx(
        sum(replay[2] for replay in replays.values()) / 12
    )
    assert result["run"]["moves"] == sum(len(replay[1]) for replay in replays.values())
    assert result["run"]["inference_us"] > 0
    assert not list((tmp_path / "out").glob(".*"))


def test_more_games_are_added_to_those_there_are(run: Run, tmp_path: Path) -> None:
    run("grown", games=4)
    grown = run("grown", games=12)
    assert grown.games == run("fresh", games=12).games
    assert replays_of(tmp_path / "grown") == replays_of(tmp_path / "fresh")
    assert grown.run is not None
    assert grown.run.moves < sum(game.moves for game in grown.games)


def test_fewer_games_are_reported_on_without_playing_or_losing_any(run: Run, tmp_path: Path) -> None:
    run(games=12)
    files = [tmp_path / "out" / name for name in ("result.json", "report.md")]
    before = [file.read_bytes() for file in files]
    evaluation = run(games=4)
    assert [file.read_bytes() for file in files] == before
    assert evaluation.summary.games == 4
    assert evaluation.run is not None
    assert evaluation.run.moves_per_second is None
    assert len(replays_of(tmp_path / "out")) == 12


@pytest.mark.parametrize("lost", ["replays", "result"])
def test_a_result_of_more_games_that_are_lost_is_replaced(run: Run, tmp_path: Path, lost: str) -> None:
    run(games=12)
    if lost == "replays":
        (tmp_path / "out" / "games.replay").unlink()
    else:
        (tmp_path / "out" / "result.json").write_text("{")
    run(games=4)
    assert result_of(tmp_path / "out")["games"] == 4


def test_a_record_that_was_cut_short_is_played_again(run: Run, tmp_path: Path) -> None:
    run()
    whole = replays_of(tmp_path / "out")
    replays = tmp_path / "out" / "games.replay"
    replays.write_bytes(replays.read_bytes()[:-30])
    run()
    assert replays_of(tmp_path / "out") == whole


def test_zeros_that_a_power_cut_left_are_cut_off_and_told(run: Run, tmp_path: Path, target: str) -> None:
    run()
    whole = replays_of(tmp_path / "out")
    replays = tmp_path / "out" / "games.replay"
    replays.write_bytes(replays.read_bytes()[:-200] + bytes(4296))
    told = io.StringIO()
    with Client(target) as client:
        served = select(client.list_models())
        evaluate(
            [ServedSource(client, served)],
            served,
            ResultFolder(tmp_path / "out"),
            seed=3,
            games=12,
            parallel=8,
            progress=progress_on(Console(file=told), 12, "games"),
        )
    assert f"{replays}: cut off " in told.getvalue()
    assert "bytes after the last whole game" in told.getvalue()
    assert replays_of(tmp_path / "out") == whole


def test_a_damaged_replay_file_is_refused_and_left_alone(run: Run, tmp_path: Path) -> None:
    run()
    replays = tmp_path / "out" / "games.replay"
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
    run: Run, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    run(games=2)
    before = replays_of(tmp_path / "out")
    with pytest.raises(OtherEvaluation, match=message):
        run(**change)
    assert replays_of(tmp_path / "out") == before


@pytest.mark.parametrize("file", ["games.replay", "unfinished.replay"])
def test_games_of_another_seed_or_that_occur_twice_are_not_continued(
    run: Run, tmp_path: Path, file: str
) -> None:
    run()
    run("other", seed=4)
    (tmp_path / "out" / file).write_bytes((tmp_path / "other" / "games.replay").read_bytes())
    with pytest.raises(ReplayError, match=rf"out/{file}: game \d+ of seed 4 has another seed than 3"):
        run(games=14)
    own = list(read_replays(tmp_path / "out" / "games.replay")) if file == "unfinished.replay" else []
    if own:
        (tmp_path / "out" / file).unlink()
        with ReplayWriter(tmp_path / "out" / file) as writer:
            for game in (20, 20):
                writer.append(replace(own[0], game=game))
        with pytest.raises(ReplayError, match=rf"out/{file}: game 20 of seed 3 occurs twice"):
            run(games=14)


def test_replays_without_conditions_are_not_continued(run: Run, tmp_path: Path) -> None:
    run(games=2)
    (tmp_path / "out" / "conditions.json").unlink()
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


def test_two_evaluations_never_share_a_folder_at_a_time(run: Run, tmp_path: Path) -> None:
    run(games=2)
    before = replays_of(tmp_path / "out")
    with ReplayWriter(tmp_path / "out" / "games.replay"):
        with pytest.raises(FolderInUse, match=r"another program is playing games into .*out; choose"):
            run(games=4)
        assert replays_of(tmp_path / "out") == before
    run(games=4)
    assert len(replays_of(tmp_path / "out")) == 4


def test_a_game_that_outgrew_the_model_is_named(run: Run) -> None:
    def outgrown_soon(selected: ServedModel) -> ServedModel:
        assert selected.version.card is not None
        card = msgspec.structs.replace(selected.version.card, largest_exponent=5)
        return replace(selected, version=replace(selected.version, card=card))

    evaluation = run(games=5, tell=outgrown_soon)
    assert evaluation.summary.outgrown_games
    assert all(game.outgrown == (game.largest_tile == 64) for game in evaluation.games)
