"""Messages about mistyped words and missing packages, and help texts."""

import re
from pathlib import Path

import pytest
from octofold_client.cli import command_line
from octofold_client.cli.game_flags import name_in_folder
from support.commands import failure, octofold

ROOT = Path(__file__).parents[3]
SUBCOMMANDS = [command.name for command in command_line.COMMANDS]


def test_octofold_alone_prints_the_help_and_lists_every_subcommand(tmp_path: Path) -> None:
    done = octofold(folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for subcommand in SUBCOMMANDS:
        assert re.search(rf"^    {subcommand} ", done.stdout, re.MULTILINE), subcommand


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "results/oen"),
        ("compare", "results/oen", "results/two"),
    ],
)
def test_the_error_for_a_mistyped_folder_suggests_the_existing_one(
    arguments: tuple[str, ...], games: Path, tmp_path: Path
) -> None:
    (tmp_path / "results").mkdir()
    for name in ("one", "two"):
        (tmp_path / "results" / name).symlink_to(games)
    assert failure(*arguments, folder=tmp_path) == ("there is no results/oen; did you mean results/one?")


CORNER = "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("models --token-file nope", 1, "^nope: no such file or directory$"),
        ("verify nope", 1, "^there is no nope$"),
        ("play", 1, "^there is no folder models: run this in a clone of Octofold.*--models"),
        (
            "compare frist scond --target {target}",
            1,
            "no model frist.*no folder is named",
        ),
        (f"move {CORNER} 1 --model small:7 --target {{target}}", 1, "^small has no version 7; it has 1$"),
        ("move 0 1 2", 2, "^board: a board has 16 cells, got 3$"),
        (f"move {CORNER} x", 2, "^board, row 4, column 4: 'x' is not an exponent$"),
        (f"move {CORNER} 16 --target {{target}}", 1, "^board 0, cell 15: small supports tiles up to 32768"),
        (
            "move boards.csv",
            2,
            "^boards.csv is a file, not a board: to read boards from it, use < boards.csv",
        ),
        ("models --target {nobody}", 1, "^no Octofold server answers at {nobody}: Connection refused$"),
        ("evaluate --target {nobody} --out file/out", 1, "^cannot write into file/out: not a directory$"),
        ("loadtest --target {target} --out {games}", 1, "{games} contains an evaluation; .*with --out$"),
        ("analyse {games} --judge random --target {nobody}", 2, "^random cannot be a judge"),
    ],
)
def test_an_error_is_one_line_and_nothing_is_written(
    command: str, code: int, message: str, target: str, port: int, games: Path, tmp_path: Path
) -> None:
    (tmp_path / "boards.csv").write_text(f"{CORNER} 1\n")
    (tmp_path / "file").write_text("no replay")
    before = sorted([*tmp_path.rglob("*"), *games.iterdir()])
    names = {"target": target, "nobody": f"127.0.0.1:{port}", "games": str(games)}
    line = failure(*command.format(**names).split(), folder=tmp_path, code=code)
    assert re.search(message.format(**names), line), line
    assert sorted([*tmp_path.rglob("*"), *games.iterdir()]) == before


def test_the_readmes_file_of_boards_exists_and_gets_moves(target: str) -> None:
    command = re.search(r"octofold move < (\S+)", (ROOT / "README.md").read_text())
    assert command is not None
    boards = (ROOT / command[1]).read_text()
    done = octofold("move", "--target", target, stdin=boards)
    assert done.returncode == 0, done
    assert len(done.stdout.splitlines()) == 1 + len(boards.splitlines()) > 3


@pytest.mark.parametrize("name", ["/../../etc/x", "a/b", "a\\b", "a\nb", "a b"])
def test_a_model_name_from_a_server_cannot_form_a_path(name: str) -> None:
    assert re.fullmatch(r"[\w.-]+", name_in_folder(name))
