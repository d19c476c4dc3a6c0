"""`octofold verify` accepts correct files, and names the game and the move of an error in edited or truncated
ones."""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from octofold_game.episodes import Episode, Episodes
from octofold_game.replays import ReplayWriter, read_replays
from octofold_players.random_player import RandomPlayer
from support.commands import octofold

Edit = Callable[[Episode], Episode]


def verify(*files: Path) -> subprocess.CompletedProcess[str]:
    return octofold("verify", *files)


@pytest.fixture
def rewrite(games: Path, tmp_path: Path) -> Callable[[Edit], Path]:
    """A function that writes the games, the third one edited, with correct checksums."""

    def rewrite(edit: Edit) -> Path:
        path = tmp_path / "edited.replay"
        with ReplayWriter(path) as writer:
            for number, episode in enumerate(read_replays(games / "games.replay")):
                writer.append(edit(episode) if number == 2 else episode)
        return path

    return rewrite


def test_correct_games_are_reported_as_correct(games: Path) -> None:
    done = verify(games / "games.replay", games)
    assert (done.returncode, done.stderr) == (0, "")
    line, again = done.stdout.splitlines()
    assert line == again
    assert line.startswith(f"{games / 'games.replay'}: 40 games, ")
    assert line.endswith(" moves: all moves, new tiles, scores and final boards are correct")


def test_the_moves_of_unfinished_games_are_checked(games: Path, tmp_path: Path) -> None:
    shutil.copy(games / "games.replay", tmp_path)
    begun = Episodes(7, range(3))
    for _ in range(20):
        begun.step(RandomPlayer().next_moves(begun.boards))
    unfinished = tmp_path / "unfinished.replay"
    with ReplayWriter(unfinished) as writer:
        for episode in begun.unfinished():
            writer.append(episode)
    done = verify(tmp_path, unfinished)
    assert (done.returncode, done.stderr) == (0, "")
    whole, rest, again = done.stdout.splitlines()
    assert "40 games" in whole
    assert rest == again
    assert rest.startswith(f"{unfinished}: 3 unfinished games, 60 moves: all moves, ")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda game: replace(game, score=game.score + 4), "the record says"),
        # Several processes check a file of this size.
        (lambda game: replace(game, moves=game.moves + bytes(1 << 20)), "has an illegal move"),
    ],
)
def test_an_edited_game_is_named_with_its_move(
    rewrite: Callable[[Edit], Path], edit: Edit, message: str
) -> None:
    edited = rewrite(edit)
    _, _, third, *_ = read_replays(edited)
    done = verify(edited)
    assert (done.returncode, done.stdout) == (1, "")
    told, verdict = done.stderr.splitlines()
    assert told.startswith(f"octofold: {edited}: byte ")
    assert f": game {third.game} of seed {third.seed} " in told
    assert message in told
    assert verdict == f"octofold: 1 of 40 games in {edited} is wrong"


def test_a_truncated_file_is_named_and_the_others_are_still_checked(games: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.replay"
    cut.write_bytes((games / "games.replay").read_bytes()[:-5])
    done = verify(cut, tmp_path / "missing", games)
    assert done.returncode == 1
    assert "are correct" in done.stdout
    torn, verdict = done.stderr.splitlines()
    assert f"{cut}: byte " in torn
    assert "the file ends within game " in torn
    assert f"there is no {tmp_path / 'missing'}" in verdict
    assert verdict.startswith(f"octofold: {cut} cannot be read after 39 games; ")
