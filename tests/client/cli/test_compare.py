"""`octofold compare`: differences, league tables, and games until a question is decided."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from octofold_client.evaluation.intervals import difference_interval
from octofold_game.episodes import Episode
from octofold_game.replays import ReplayWriter, read_replays
from support.commands import failure, octofold
from support.servers import served
from support.shipped import newest


@pytest.fixture(autouse=True)
def _in_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to a temporary folder, because the command writes below the working folder."""
    monkeypatch.chdir(tmp_path)


def compare(*arguments: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return octofold("compare", *arguments, folder=folder)


def wrong(*arguments: str | Path, folder: Path | None = None) -> str:
    """Return the error of a wrong command line."""
    return failure("compare", *arguments, folder=folder, code=2)


@pytest.fixture(scope="module")
def two_models(publish_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of one network under three names: the games of two end at tile 32, those of the
    third at tile 8.
    """
    folder = tmp_path_factory.mktemp("two")
    publish_model(folder, name="one", largest_exponent=4)
    publish_model(folder, name="other", largest_exponent=4)
    publish_model(folder, name="short", largest_exponent=2)
    with served(folder) as server:
        yield server.target


def scores(folder: Path) -> dict[int, int]:
    return {episode.game: episode.score for episode in read_replays(folder / "games.replay")}


def test_two_folders_are_compared_game_by_game(games: Path, worse_games: Path) -> None:
    done = compare(worse_games, games, "--html", "--out", "out")
    assert done.returncode == 0, done
    assert "<h3>Averages and differences</h3>" in Path("out/comparison.html").read_text()
    ours, theirs = scores(worse_games), scores(games)
    differences = np.array([theirs[game] - ours[game] for game in range(40)])
    low, high = difference_interval(differences) or (0, 0)
    assert done.stdout.splitlines()[-1].startswith(
        f"greedy version 1 scores {differences.mean():,.0f} more on average than timid version 1 "
        f"(95% interval {low:,.0f} to {high:,.0f}; 40 games each). Valid at any look, "
    )
    assert "| average score |" in done.stdout


def test_wrong_folders_and_mixed_pairs_are_refused_by_name(
    games: Path, worse_games: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    assert failure("compare", games, tmp_path / "empty") == f"{tmp_path / 'empty'} is not a result folder"
    assert wrong("cnn5", games) == (
        f"cannot compare the result folder {games} with cnn5: give only result folders or only players"
    )
    for flag in ("--until-decided", "--games=4", "--seed=4"):
        assert wrong(games, worse_games, flag).startswith(f"{flag.partition('=')[0]} is for new games")
    both = "--games cannot be combined with --until-decided"
    assert wrong("a", "b", "--until-decided", "--games", "4").startswith(both)


def test_two_models_play_the_same_games_into_folders_of_their_own(two_models: str, tmp_path: Path) -> None:
    done = compare("one", "other", "--target", two_models, "--games", "8", "--seed", "4", folder=tmp_path)
    assert done.returncode == 0, done
    needed = "An interval requires at least 10 games in which the two scores differ."
    assert done.stdout.endswith(f"; 8 games each. {needed}\n")
    one, other = (tmp_path / "results" / f"evaluate-{name}-v1-seed4" for name in ("one", "other"))
    assert scores(one) == scores(other)
    again = compare(one, other)
    assert again.stdout == done.stdout


def test_equal_models_play_exactly_up_to_the_limit(two_models: str, tmp_path: Path) -> None:
    options = ["--target", two_models, "--until-decided", "--limit", "130", "--out", "out"]
    done = compare("one", "other", *options, folder=tmp_path)
    assert done.returncode == 3, done
    sentence = done.stdout.splitlines()[-1]
    assert "Both players scored the same in each of the 130 games, as two copies do." in sentence
    assert len(scores(tmp_path / "out" / "evaluate-one-v1-seed0")) == 130


@pytest.mark.parametrize(
    ("sides", "options", "code", "said"),
    [
        (["timid", "greedy"], ["--no-worse-than", "2.5%", "--no-cap"], 3, " all runs; 40 games each).\n"),
        (["greedy", "again"], [], 0, f"greedy and again are the same player: their SHA-256 is {'ab' * 6}..."),
        (["greedy"], [], 2, "octofold compare: there must be 2 to 50 sides, such as A B or A "),
    ],
)
def test_equal_players_a_missing_cap_and_too_few_players_are_reported(
    games: Path, worse_games: Path, sides: list[str], options: list[str], code: int, said: str
) -> None:
    for name, folder in (("greedy", games), ("again", games), ("timid", worse_games)):
        shutil.copytree(folder, name)
    done = compare(*sides, *options)
    assert done.returncode == code, done
    assert said in done.stdout + done.stderr


def test_a_model_is_not_compared_with_itself(two_models: str, tmp_path: Path) -> None:
    told = wrong("one", "one:1", "--target", two_models, folder=tmp_path)
    assert told == "both sides are the same player, one version 1"
    assert "has no model two" in failure("compare", "one", "two", "--target", two_models, folder=tmp_path)


def made_up(folder: Path, name: str, scores: Sequence[int], seed: int = 1) -> Path:
    """Write a result folder of invented games with these scores."""
    folder.mkdir()
    conditions = {"model": name, "version": "1", "precision": "fp32", "sha256": "ab" * 32, "seed": seed}
    (folder / "conditions.json").write_text(json.dumps(conditions))
    board = np.zeros(16, np.uint8)
    with ReplayWriter(folder / "games.replay") as writer:
        for game, score in enumerate(scores):
            writer.append(Episode(game, seed, 17, board, bytes(1), score, board))
    return folder


def test_a_player_that_scores_nothing_in_1_percent_of_games_is_not_at_most_half_a_percent_worse(
    tmp_path: Path,
) -> None:
    random = np.random.default_rng(1)
    ours = random.gamma(2.4, 84_000, 10_000).astype(int)
    theirs = np.where(random.random(10_000) < 0.01, 0, ours)
    sides = [made_up(tmp_path / name, name, scores.tolist()) for name, scores in (("a", ours), ("b", theirs))]
    refused = compare(*sides, "--no-worse-than", "0.5%")
    assert refused.returncode == 4, refused
    passed = compare(*sides, "--no-worse-than", "2%")
    assert passed.returncode == 0, passed
    assert (
        "b version 1 is at most 2% worse than a version 1. On average, a version 1 scores " in passed.stdout
    )
    better = compare(*sides, "--better-than", "0%")
    assert better.returncode == 4, better
    assert "b version 1 is not better than a version 1. " in better.stdout
    assert compare(*sides[::-1], "--better-than", "0.5%").returncode == 0
    assert compare(*sides[::-1], "--better-than", "1%").returncode == 3
    assert "a percentage of at least 0% and below 100%" in wrong(*sides, "--better-than", "two")


def test_a_league_shows_the_games_that_it_compares_and_no_others(
    games: Path, worse_games: Path, tmp_path: Path
) -> None:
    few = made_up(tmp_path / "few", "few", [300 + game for game in range(20)], seed=7)
    done = compare(games, worse_games, few, "--html", "--out", tmp_path / "out")
    assert done.returncode == 0, done
    kept_games, text = scores(games), (tmp_path / "out" / "comparison.html").read_text()
    average = sum(kept_games[game] for game in range(20)) / 20
    for shown in (done.stdout, text):
        assert f"{average:,.0f}" in shown
        assert f"{sum(kept_games.values()) / 40:,.0f}" not in shown
    assert "<td>20</td>" in text


def test_the_exit_code_says_that_a_player_is_no_worse(two_models: str) -> None:
    options = ["--target", two_models, "--out", "out", "--limit", "225"]
    same = compare("one", "other", "--no-worse-than", "20%", *options)
    assert same.returncode == 0, same
    assert "other version 1 is at most 20% worse than one version 1. On average, " in same.stdout


def test_the_exit_code_says_that_a_player_is_worse(two_models: str) -> None:
    options = ["--target", two_models, "--out", "out"]
    worse = compare("one", "short", "--no-worse-than", "20%", *options)
    assert worse.returncode == 4, worse
    assert "short version 1 is more than 20% worse than one version 1. " in worse.stdout
    turned = compare("short", "one", "--equal-within", "20%", "--json", *options)
    assert (turned.returncode, json.loads(turned.stdout)["answer"]) == (4, False)


def test_a_limit_that_cannot_suffice_is_reported_before_the_games(two_models: str) -> None:
    options = ["--target", two_models, "--out", "out", "--limit", "110", "--seed", "5"]
    done = compare("one", "other", "--no-worse-than", "2%", *options)
    assert done.returncode == 3, done
    assert done.stderr.startswith(
        "--limit 110 is too small: for equal players, a yes to --no-worse-than 2% takes at least 743 games\n"
    )


def test_models_of_a_repository_are_compared_on_a_server_that_the_command_starts(
    repository: Path, tmp_path: Path
) -> None:
    options = ["--games", "4", "--parallel", "4", "--out", "out"]
    done = compare("small", "--player", "random", "--models", repository, *options)
    assert done.returncode == 0, done
    assert "4 games each." in done.stdout
    assert failure("compare", "small", "two", "--models", tmp_path / "no").startswith("there is no ")


def test_a_comparison_names_the_values_that_removed_luck(
    games: Path, worse_games: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTOFOLD_MODELS", str(newest("ntuple").parents[1]))
    Path("models").symlink_to(newest("ntuple").parents[1])  # OCTOFOLD_MODELS takes precedence over ./models
    sides = [shutil.copytree(each, each.name) for each in (games, worse_games)]
    done = compare(*sides, "--out", "out")
    assert done.returncode == 0, done
    (pair,) = json.loads(Path("out/comparison.json").read_text())["pairs"]
    for part in ("without_luck", "bets"):
        assert pair[part]["values"] == f"ntuple:{newest('ntuple')}"
        assert len(pair[part]["sha256"]) == 64
