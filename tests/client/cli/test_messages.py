"""What people read who mistype something, lack something, or ask for help."""

import re
from pathlib import Path

import pytest
from octofold_client.cli import command_line
from octofold_client.cli.arguments import name_in_folder
from support.commands import failure, octofold

ROOT = Path(__file__).parents[3]
SUBCOMMANDS = [command.name for command in command_line.COMMANDS]


def test_octofold_alone_prints_the_help_and_lists_every_subcommand(tmp_path: Path) -> None:
    done = octofold(folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for subcommand in SUBCOMMANDS:
        assert re.search(rf"^    {subcommand} ", done.stdout, re.MULTILINE), subcommand


def test_octofold_tells_its_version(tmp_path: Path) -> None:
    assert re.fullmatch(r"octofold \d+\.\d+\.\d+\n", octofold("--version", folder=tmp_path).stdout)


@pytest.mark.parametrize("subcommand", SUBCOMMANDS)
def test_every_help_text_says_what_each_flag_does_and_never_none(subcommand: str, tmp_path: Path) -> None:
    shown = octofold(subcommand, "--help", folder=tmp_path).stdout
    assert "None" not in shown
    flags = re.findall(r"^  (--[a-z-]+(?: [^ ]+)*)((?: {2,}.*)?(?:\n {10,}.*)*)", shown, re.MULTILINE)
    assert [flag for flag, said in flags if len(said.split()) < 2] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "results/oen"),
        ("report", "results/oen"),
        ("analyse", "results/oen"),
        ("compare", "results/oen", "results/two"),
        ("compare", "results/two", "results/oen"),
    ],
)
def test_a_mistyped_folder_is_named_with_the_one_that_is_there(
    arguments: tuple[str, ...], games: Path, tmp_path: Path
) -> None:
    (tmp_path / "results").mkdir()
    for name in ("one", "two"):
        (tmp_path / "results" / name).symlink_to(games)
    assert failure(*arguments, folder=tmp_path) == ("there is no results/oen; did you mean results/one?")


def test_a_mistyped_folder_without_a_slash_is_not_only_called_an_unknown_model(
    target: str, tmp_path: Path
) -> None:
    line = failure("compare", "frist", "scond", "--target", target, folder=tmp_path)
    assert "the server has no model frist" in line
    assert "not a folder, so read as a model" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("models", "--token-file", "nope"), "nope: no such file or directory"),
        (("models", "--tls-ca", "nope"), "nope: no such file or directory"),
        (("verify", "nope"), "there is no nope"),
        (("verify", "far/nope"), "there is no far"),
    ],
)
def test_a_missing_file_is_named_without_the_number_of_an_error(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    assert failure(*arguments, folder=tmp_path) == message


def test_without_models_play_says_where_they_come_from(tmp_path: Path) -> None:
    line = failure("play", folder=tmp_path)
    assert line.startswith("there is no folder models: run this in a clone of Octofold")
    assert "--models" in line


def test_the_file_of_boards_that_the_readme_asks_about_is_there_and_gets_moves(target: str) -> None:
    command = re.search(r"octofold move < (\S+)", (ROOT / "README.md").read_text())
    assert command is not None
    boards = (ROOT / command[1]).read_text()
    done = octofold("move", "--target", target, stdin=boards)
    assert done.returncode == 0, done
    assert len(done.stdout.splitlines()) == 1 + len(boards.splitlines()) > 3


def test_a_model_is_named_with_its_version_as_in_evaluate(target: str, tmp_path: Path) -> None:
    board = "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1"
    done = octofold("move", board, "--model", "small:1", "--target", target, folder=tmp_path)
    assert done.returncode == 0, done
    line = failure("move", board, "--model", "small:7", "--target", target, folder=tmp_path)
    assert line == "small has no version 7; it has 1"


@pytest.mark.parametrize("name", ["/../../etc/x", "a/b", "a\\b", "a\nb", "a b"])
def test_the_name_that_a_server_gives_a_model_makes_no_path(name: str) -> None:
    assert re.fullmatch(r"[\w.-]+", name_in_folder(name))
