"""A mistyped command line fails at once, with one line that suggests the right word."""

from __future__ import annotations

import shlex
import sys

import octofold_client.cli
import octofold_export.cli
import octofold_papers.cli
import octofold_server.cli
import octofold_training.cli
import pytest
from octofold_game.commands.removed import REMOVED

NINES = "9" * 5000
COMMANDS = {
    "octofold": octofold_client.cli.main,
    "octofold-export": octofold_export.cli.main,
    "octofold-papers": octofold_papers.cli.main,
    "octofold-serve": octofold_server.cli.main,
    "octofold-train": octofold_training.cli.main,
}


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("octofold evalute", "there is no command 'evalute'; did you mean evaluate?"),
        ("octofold frobnicate", "there is no command 'frobnicate'; choose from move, evaluate, "),
        ("octofold --verison", "there is no option --verison; did you mean --version?"),
        ("octofold evaluate --game=5", "there is no option --game; did you mean --games?"),
        ("octofold play x", "unexpected argument 'x'"),
        ("octofold evaluate --games 0", "--games must be an integer from 1 to 1000000000, got '0'"),
        (f"octofold evaluate --seed {NINES}", f"--seed must be an integer from 0 to {2**64 - 1}, got '999"),
        ("octofold verify", "FILE is missing"),
        ("octofold evaluate --games", "--games needs a value"),
        ("octofold evaluate --model a:1,", "--model: 'a:1,' contains an empty name"),
        ("octofold evaluate --target a:1,a:1", "--target: must name each address once, got a:1 twice"),
        ("octofold models --target http://a:1", "--target: must be HOST:PORT, such as 127.0.0.1:50051, or "),
        ("octofold loadtest --rate 0", "--rate: a level must be above 0 and at most 1,000,000, got 0"),
        ("octofold compare a b --no-worse-than 5", "--no-worse-than: 5 has no percent sign: write 5% for "),
        *(
            (
                f"octofold compare a b --no-worse-than={margin}",
                "--no-worse-than must be a percentage above 0% and below 100%, such",
            )
            for margin in ("0%", "100%", "-1%", "nan%", "two%", f"{NINES}%")
        ),
        ("octofold-export --chekpoint a --name b", "there is no option --chekpoint; did you mean "),
        ("octofold-serve --max-bach-size 4", "there is no option --max-bach-size; did you mean --max-batch"),
        ("octofold-serve --no-tls", "there is no option --no-tls"),
        (f"octofold-serve --{'q' * 5000}", "there is no option --qqqqqqqq"),
        ("octofold-serve models", "unexpected argument 'models' (see octofold-serve --help)"),
        (f"octofold-serve --port {NINES}", "--port must be an integer from 0 to 65535, got '9999999"),
        ("octofold-train techer a.toml", "there is no command 'techer'; did you mean teacher?"),
        ("octofold-train student a.toml --techer b", "there is no option --techer; did you mean --teacher?"),
        (
            "octofold-train teacher a.toml --minutes soon",
            "--minutes must be a number of minutes, from 0",
        ),
        ("octofold-train teacher", "recipe is missing"),
        (
            "octofold-train endgame --six 1042",
            "--six must be 32, 64, 128, 256, 512, 1024 or 2048, got",
        ),
        ("octofold-papers table --positions inf", "--positions must be a whole number from 1, got 'inf'"),
    ],
)
def test_a_mistyped_command_line_gives_one_line_with_the_probable_word(
    typed: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *arguments = shlex.split(typed)
    with pytest.raises(SystemExit) as stopped:
        sys.exit(COMMANDS[program](arguments))
    assert stopped.value.code == 2
    output, errors = capsys.readouterr()
    assert output == ""
    (line,) = errors.splitlines()
    command, _, said = line.partition(": ")
    assert command in (program, f"{program} {arguments[0]}")
    assert said.startswith(message)
    assert line.endswith(f"(see {command} --help)")
    assert len(line) < 300


@pytest.mark.parametrize(
    ("command", "word", "listed"),
    [
        *((command, word, word) for command in REMOVED for word in REMOVED[command]),
        ("octofold-serve", "--no-tune", "--tune"),
    ],
)
def test_the_error_for_a_removed_word_says_what_to_do_instead(
    command: str, word: str, listed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *subcommands = command.split()
    with pytest.raises(SystemExit) as stopped:
        sys.exit(COMMANDS[program]([*subcommands, word]))
    assert stopped.value.code == 2
    instead = REMOVED[command][listed]
    assert capsys.readouterr().err == f"{command}: {word} was removed: {instead} (see {command} --help)\n"
