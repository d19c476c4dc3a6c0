"""The command `octofold`: standard output, standard error, and failures."""

import json
import os
import shlex
from pathlib import Path

import pytest
from octofold_client.cli.command_line import COMMANDS, main
from octofold_game.commands.subcommands import Command, parse, parser_of
from support.commands import failure, octofold
from support.forks import forks_of

CORNER = "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1"
SECONDS = 60


@pytest.fixture
def nobody(port: int) -> str:
    return f"127.0.0.1:{port}"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_examples_of_a_command_are_right_and_first_in_its_help(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(command.examples) == 3
    for example in command.examples:
        arguments = [command.name, *shlex.split(example.partition(" <")[0])]
        assert parse(parser_of("octofold", "", COMMANDS, arguments), arguments).command is command
    with pytest.raises(SystemExit) as ended:
        main(["help", command.name])
    assert ended.value.code == 0
    usage, examples = capsys.readouterr().out.split("\n\n")[:2]
    assert usage.startswith(f"usage: octofold {command.name}")
    assert examples.splitlines()[1:] == [
        f"  octofold {command.name} {each}".rstrip() for each in command.examples
    ]


def test_a_board_on_the_command_line_gets_its_move_and_the_probabilities(target: str, tmp_path: Path) -> None:
    for board in ([CORNER], [*CORNER.split(), "--model", "small:1"]):
        done = octofold("move", *board, "--target", target, folder=tmp_path)
        assert done.returncode == 0, done
        assert done.stdout.split()[0] in ("up", "left")
        assert "right 0.0%, down 0.0%" in done.stdout


def test_csv_on_standard_input_gets_a_line_of_csv_for_each_board(target: str, tmp_path: Path) -> None:
    over = ",".join(map(str, [1, 2, 1, 2, 2, 1, 2, 1] * 2))
    lines = f"{CORNER.replace(' ', ',')}\n{over}\n" * 3000  # more boards than one call may contain
    done = octofold("move", "--target", target, folder=tmp_path, stdin=lines)
    assert done.returncode == 0, done
    header, first, second, *rest = done.stdout.splitlines()
    assert header == "move,up,right,down,left"
    assert first.split(",")[0] in ("up", "left")
    assert sum(map(float, first.split(",")[1:])) == pytest.approx(1.0, abs=1e-3)
    assert second == "over,0.0000,0.0000,0.0000,0.0000"
    assert rest == [first, second] * 2999


def test_an_evaluation_prints_the_table_and_the_paths_of_its_files(target: str, tmp_path: Path) -> None:
    done = octofold("evaluate", "--games", "4", "--seed", "9", "--target", target, folder=tmp_path)
    assert done.returncode == 0, done
    assert done.stdout.startswith("**small version 1: 4 games, seed 9**\n")
    assert "| average score " in done.stdout
    folder = Path("results/evaluate-small-v1-seed9")
    assert done.stdout.endswith(
        f"replays: {folder}/games.replay\nresult:  {folder}/result.json\nreport:  {folder}/report.md\n"
    )
    assert json.loads((tmp_path / folder / "result.json").read_text())["games"] == 4
    again = octofold("evaluate", "--games", "4", "--seed", "9", "--target", target, folder=tmp_path)
    assert "An earlier run played all games." in again.stdout


def test_a_dead_address_of_a_list_is_named_and_the_others_answer(
    target: str, nobody: str, tmp_path: Path
) -> None:
    move = ("move", *CORNER.split(), "--target")
    done = octofold(*move, f"{nobody},{target},nowhere.invalid:1", folder=tmp_path)
    assert done.returncode == 0, done
    refused, unknown = done.stderr.splitlines()
    assert refused.startswith(f"continuing without {nobody}: ")
    assert "refused" in refused
    assert unknown == "continuing without nowhere.invalid:1: the host name cannot be resolved"
    both = failure(*move, f"{nobody},nowhere.invalid:1", folder=tmp_path)
    assert both.startswith(f"none of the 2 servers answers: no Octofold server answers at {nobody}: ")
    assert both.endswith("; nowhere.invalid:1: the host name cannot be resolved")
    assert failure(*move, f"dns:///{nobody}", folder=tmp_path).startswith(
        "no Octofold server answers at dns:"
    )


def test_a_closed_pipe_causes_no_error_message(target: str, tmp_path: Path) -> None:
    boards, errors = tmp_path / "boards", tmp_path / "errors"
    boards.write_text(f"{CORNER}\n" * 5000)
    reader, writer = os.pipe()
    with boards.open() as given, errors.open("w") as err:
        streams = (given.fileno(), writer, err.fileno())
        process = forks_of("octofold").start(["move", "--target", target], streams, folder=tmp_path)
    os.close(writer)
    assert os.read(reader, 24) == b"move,up,right,down,left\n"
    os.close(reader)
    assert process.wait(SECONDS) == 1
    assert errors.read_text() == ""
