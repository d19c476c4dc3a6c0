"""Merged slices of an evaluation equal a single run byte for byte; slices that do not fit are refused."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from octofold_client import EvaluationError, OtherEvaluation, evaluate, merge
from octofold_client.evaluation.merging import merge as merge_folders
from octofold_client.evaluation.slices import Slice
from octofold_client.provenance import runs_of
from octofold_game.replays import ReplayWriter, read_replays
from support.commands import octofold
from support.players import FirstLegal

GAMES, SEED = 14, 3
KEPT = {"conditions.json", "games.replay", "report.md", "result.json", "runs.jsonl"}


class Second(FirstLegal):
    name = "second"


def play(folder: Path, part: tuple[int, int] | None = None, **changed: Any) -> Path:
    options = {"games": GAMES, "seed": SEED, "parallel": 5, **changed}
    evaluate(options.pop("player", FirstLegal()), folder, slice=part, **options)
    return folder


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result folder of a single run."""
    return play(tmp_path_factory.mktemp("single") / "single")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The result folders of three slices."""
    folder = tmp_path_factory.mktemp("slices")
    return [play(folder / f"s{number}", (number, 3), parallel=number) for number in (1, 2, 3)]


@pytest.fixture
def slices(played: list[Path], tmp_path: Path) -> list[Path]:
    """Copies `a`, `b` and `c` of the three slices, which a test may change."""
    return [Path(shutil.copytree(each, tmp_path / name)) for each, name in zip(played, "abc", strict=True)]


def content_of(folder: Path) -> dict[str, Any]:
    """Return the files of a result without the times and speeds."""
    assert {path.name for path in folder.iterdir()} == KEPT
    content: dict[str, Any] = {path.name: path.read_bytes() for path in folder.iterdir()}
    content["report.md"] = re.sub(rb"\| moves/s .*\n", b"", content["report.md"])
    before, _, rest = content["result.json"].partition(b'  "run": {')
    content["result.json"] = before + rest.partition(b"}")[2]
    del content["runs.jsonl"]
    return content


@given(st.integers(1, 300), st.integers(1, 300))
def test_every_game_is_in_one_slice_and_slices_differ_by_at_most_one_game(games: int, of: int) -> None:
    if of > games:
        with pytest.raises(EvaluationError, match=r"cannot be cut into"):
            Slice(1, of, games)
        return
    ranges = [Slice(number, of, games).range for number in range(1, of + 1)]
    assert [game for each in ranges for game in each] == list(range(games))
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 1


def test_merged_slices_are_the_single_run_byte_for_byte(
    single: Path, slices: list[Path], tmp_path: Path
) -> None:
    result = merge([slices[2], slices[0], slices[1]], out=tmp_path / "merged")
    assert content_of(tmp_path / "merged") == content_of(single)
    assert result.summary.games == GAMES
    run = json.loads((tmp_path / "merged" / "result.json").read_text())["run"]
    assert run["moves"] == sum(map(len, read_replays(single / "games.replay")))
    assert runs_of(tmp_path / "merged") == [run for each in slices for run in runs_of(each)]


def test_a_slice_continues_where_it_stopped_and_its_folder_refuses_other_games(slices: list[Path]) -> None:
    whole = (slices[1] / "games.replay").read_bytes()
    (slices[1] / "games.replay").write_bytes(whole[:-200])
    play(slices[1], (2, 3))
    assert (slices[1] / "games.replay").read_bytes() == whole
    for part, games, told in (
        ((3, 3), GAMES, "2/3 of 14 games, not 3/3 of 14 games"),
        ((2, 3), 20, "2/3 of 14 games, not 2/3 of 20 games"),
        (None, GAMES, "2/3 of 14 games, not none"),
    ):
        with pytest.raises(OtherEvaluation, match=f"slice {told}"):
            play(slices[1], part, games=games)


def refused(folders: list[Path], told: str, to: Path) -> None:
    """Check that a merge is refused in one line that contains `told`, and leaves no file."""
    before = sorted(to.parent.iterdir())
    with pytest.raises(EvaluationError) as raised:
        merge(folders, to)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)
    assert sorted(to.parent.iterdir()) == before


def test_missing_and_duplicate_slices_are_reported(slices: list[Path], tmp_path: Path) -> None:
    to = tmp_path / "merged"
    a, b, c = slices
    refused([], "merging needs at least one result folder", to)
    refused([a, c], "slice 2 of 3 is missing: add its folder", to)
    refused([c], "slices 1, 2 of 3 are missing: add their folders", to)
    refused([a, b, c, c], f"{c} and {c} both contain slice 3/3 of 14 games", to)


def test_games_of_other_conditions_are_refused_with_the_difference(
    slices: list[Path], tmp_path: Path
) -> None:
    a, _, c = slices
    to = tmp_path / "merged"
    seed = play(tmp_path / "seed", (2, 3), seed=4)
    refused([a, seed, c], f"{seed} and {a} belong to different evaluations: seed 4, not 3", to)
    player = play(tmp_path / "player", (2, 3), player=Second())
    refused(
        [a, player, c], f"{player} and {a} belong to different evaluations: model second, not first legal", to
    )
    more = play(tmp_path / "more", (2, 3), games=15)
    refused(
        [a, more, c],
        f"{more} and {a} belong to different evaluations: slices 2/3 of 15 games and 1/3 of 14 games",
        to,
    )


def test_a_folder_that_is_not_a_finished_result_is_refused_by_name(
    slices: list[Path], tmp_path: Path
) -> None:
    a, b, c = slices
    to = tmp_path / "merged"
    (tmp_path / "empty").mkdir()
    refused([a, tmp_path / "empty", c], f"{tmp_path / 'empty'} is not a result folder", to)
    refused([a, b, tmp_path / "d"], f"there is no {tmp_path / 'd'}", to)
    whole = (b / "games.replay").read_bytes()
    with ReplayWriter(tmp_path / "some") as writer:
        for episode in read_replays(b / "games.replay"):
            if episode.game not in (5, 6, 8):
                writer.append(episode)
    (tmp_path / "some").replace(b / "games.replay")
    refused([a, b, c], f"{b} is not finished: it lacks 3 games; run its command again", to)
    (b / "games.replay").write_bytes(whole)
    (b / "result.json").unlink()
    refused([a, b, c], f"{b} is not finished: it has no result; run its command again", to)
    shutil.copy(a / "games.replay", b / "games.replay")
    shutil.copy(a / "result.json", b / "result.json")
    refused([a, b, c], f"{b} contains game 0, which is not in slice 2/3 of 14 games", to)


def test_a_folder_that_is_not_empty_keeps_its_files(slices: list[Path], single: Path, tmp_path: Path) -> None:
    before = content_of(slices[0])
    refused(slices, f"{slices[0]} is not an empty folder; choose another one", slices[0])
    assert content_of(slices[0]) == before
    (tmp_path / "made").mkdir()
    merge(slices, tmp_path / "made")
    assert content_of(tmp_path / "made") == content_of(single)


def test_an_interrupted_merge_leaves_no_folder(slices: list[Path], tmp_path: Path) -> None:
    calls = 0

    def interrupt() -> None:
        nonlocal calls
        calls += 1
        if calls > GAMES:  # while the merge writes games
            assert list(tmp_path.glob(".merged.*.partial"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        merge_folders(slices, tmp_path / "merged", check=interrupt)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "c"}


def test_slices_and_merge_on_the_command_line(tmp_path: Path) -> None:
    options = ("evaluate", "--player", "random", "--games", "5", "--seed", "2")
    for part in ("1/2", "2/2"):
        done = octofold(*options, "--slice", part, folder=tmp_path)
        assert done.returncode == 0, done
        assert f"slice {part} of 5 games" in done.stdout
    octofold(*options, "--out", "single", folder=tmp_path)
    parts = sorted(str(path) for path in (tmp_path / "results").iterdir())
    assert [part[-10:] for part in parts] == ["-slice1of2", "-slice2of2"]
    done = octofold("merge", *parts, "--out", "merged", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "5 games, seed 2**" in done.stdout
    assert content_of(tmp_path / "merged") == content_of(tmp_path / "single")
    done = octofold("merge", parts[0], "--out", "none", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "octofold: slice 2 of 2 is missing: add its folder\n"
