"""`octofold evaluate --logs` writes exactly the moves of the games, and continues after an interruption."""

import shutil
from pathlib import Path

import pytest
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.studies import play_logs
from octofold_client.studies.play_logs import write_logs
from octofold_game.play_logs.moves import CheckedMoves, LoggedMoves
from octofold_game.play_logs.reading import log_files, read_log
from octofold_game.replays import read_replays
from support.commands import octofold
from support.logged_moves import moves_of, rows

SECONDS = 100


def new_tiles_appear(moves: LoggedMoves) -> list[tuple[int, str]]:
    checked = CheckedMoves.of(moves)
    assert checked.new.all()
    return checked.broken()


def logged(folder: Path) -> LoggedMoves:
    """Return all moves in the logs of a folder after verifying them."""

    def fail(line: object) -> None:
        raise AssertionError(str(line))

    return LoggedMoves.joined(
        [moves for file in log_files(folder) for moves in read_log(file, fail, new_tiles_appear)]
    )


def played(folder: Path) -> list[list[int]]:
    games = read_replays(folder / "games.replay")
    return sorted(rows(LoggedMoves.joined([moves_of(game) for game in games])).tolist())


def test_the_logs_hold_the_moves_of_the_games(tmp_path: Path) -> None:
    done = octofold("evaluate", "--logs", "--player", "random", "--games", "9", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    found = logged(tmp_path)
    assert sorted(rows(found).tolist()) == played(tmp_path)
    told = f"log:     {tmp_path / 'moves-00000.txt.gz'}: {len(found):,} moves"
    assert done.stdout.splitlines()[-1] == told


def test_games_are_divided_among_files(games: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play_logs, "GAMES_PER_FILE", 30)
    folder = ResultFolder(Path(shutil.copytree(games, tmp_path / "greedy")))
    files = write_logs(folder, lambda _: None, lambda: None)
    assert list(files) == log_files(folder.path)
    assert len(files) == 2
    assert sorted(rows(logged(folder.path)).tolist()) == played(folder.path)


def test_verify_reads_logs_and_names_bad_lines(tmp_path: Path) -> None:
    done = octofold("evaluate", "--logs", "--player", "random", "--games", "3", "--out", tmp_path)
    assert done.returncode == 0, done
    done = octofold("verify", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    replays, logs = done.stdout.splitlines()
    assert "all moves, new tiles, scores and final boards are correct" in replays
    assert logs.startswith(f"{tmp_path / 'moves-00000.txt.gz'}: ")
    assert "all are legal; moves by the cell that their last field can name: new tile " in logs
    assert logs.endswith(", neither 0")

    renamed = (tmp_path / "moves-00000.txt.gz").rename(tmp_path / "moves.log")
    done = octofold("verify", renamed)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == logs.replace("moves-00000.txt.gz", "moves.log") + "\n"

    empty = tmp_path / "empty.unfinished"
    empty.touch()
    done = octofold("verify", empty, renamed)
    assert (done.returncode, done.stderr) == (1, f"octofold: {empty}: ends within the file header\n")
    assert done.stdout.startswith(f"{renamed}: ")

    bad = tmp_path / "bad.txt"
    bad.write_text("r 1 2 3 4 1 2 3 4 1 2 3 4 1 2 3 4 : 1 0\nr 1 : 2\nr" + " 0" * 15 + " 1 : 0 0\n")
    done = octofold("verify", bad, tmp_path / "missing.txt")
    assert (done.returncode, done.stdout) == (1, "")
    first, second, verdict = done.stderr.splitlines()
    assert first == f"octofold: {bad}:1: right does not change the board"
    assert second == f"octofold: {bad}:2: it must have 20 parts, got 4"
    assert verdict == (f"octofold: 2 of 3 lines in {bad} are wrong; there is no {tmp_path / 'missing.txt'}")
