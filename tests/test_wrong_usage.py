"""A mistyped command line ends in one line that says what was probably meant, before anything is done."""

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
from octofold_papers.supervised.rows import ROWS

NINES = "9" * 5000
PERCENTAGE = "must be a percentage above 0% and below 100%, such as 2%"
ADDRESS = (
    "must be HOST:PORT, such as 127.0.0.1:50051, or dns:///NAME:PORT, or unix:PATH, or several with commas "
    "between them"
)
SEED = "must be an integer from 0 to 18446744073709551615"
TILE = "must be 32, 64, 128, 256, 512, 1024 or 2048"
COMMANDS = {
    "octofold": octofold_client.cli.main,
    "octofold-export": octofold_export.cli.main,
    "octofold-papers": octofold_papers.cli.main,
    "octofold-serve": octofold_server.cli.main,
    "octofold-train": octofold_training.cli.main,
}


@pytest.mark.parametrize(
    ("typed", "at", "message"),
    [
        ("octofold evalute", "", "there is no command 'evalute'; did you mean evaluate?"),
        ("octofold frobnicate", "", "there is no command 'frobnicate'; there are move, evaluate, "),
        ("octofold --verison", "", "there is no option --verison; did you mean --version?"),
        ("octofold evaluate --gmaes 5", "evaluate", "there is no option --gmaes; did you mean --games?"),
        ("octofold evaluate --game=5", "evaluate", "there is no option --game; did you mean --games?"),
        ("octofold move --tile 0", "move", "there is no option --tile; did you mean --tiles?"),
        ("octofold play x", "play", "unexpected argument 'x'"),
        (
            f"octofold evaluate --games {NINES}",
            "evaluate",
            "--games must be an integer from 1 to 1000000000, got '99999",
        ),
        (f"octofold evaluate --seed {NINES}", "evaluate", f"--seed {SEED}"),
        ("octofold verify", "verify", "FILE is missing"),
        ("octofold evaluate --games", "evaluate", "--games needs a value"),
        (
            "octofold evaluate --games 0",
            "evaluate",
            "--games must be an integer from 1 to 1000000000, got '0'",
        ),
        (
            "octofold evaluate --parallel 131073",
            "evaluate",
            "--parallel must be an integer from 1 to 131072, got '131073'",
        ),
        ("octofold evaluate --model a:1,", "evaluate", "--model: 'a:1,' contains an empty name"),
        ("octofold evaluate --target a:1,a:1", "evaluate", "--target: contains a:1 twice"),
        ("octofold models --target http://a:1", "models", f"--target: {ADDRESS}, got 'http://a:1'"),
        ("octofold loadtest --rate 0", "loadtest", "--rate: 0 is not above 0 and at most 1,000,000"),
        (
            "octofold compare a b --no-worse-than 5",
            "compare",
            "--no-worse-than: 5 has no percent sign: write 5% for 5 in a hundred",
        ),
        (
            "octofold-export --chekpoint a --name b",
            "",
            "there is no option --chekpoint; did you mean --checkpoint?",
        ),
        (
            "octofold-export --checkpoint a --name b --zzz=1",
            "",
            "there is no option --zzz (see octofold-export --help)",
        ),
        (
            "octofold-serve --max-bach-size 4",
            "",
            "there is no option --max-bach-size; did you mean --max-batch-size?",
        ),
        ("octofold-serve --prot=4", "", "there is no option --prot; did you mean --port?"),
        ("octofold-serve --no-tls", "", "there is no option --no-tls"),
        (f"octofold-serve --{'q' * 5000}", "", "there is no option --qqqqqqqq"),
        (
            "octofold-serve --qqqqqqqqqqqq",
            "",
            "there is no option --qqqqqqqqqqqq (see octofold-serve --help)",
        ),
        ("octofold-serve models", "", "unexpected argument 'models' (see octofold-serve --help)"),
        ("octofold-serve --port", "", "--port needs a value (see octofold-serve --help)"),
        (f"octofold-serve --port {NINES}", "", "--port must be an integer from 0 to 65535, got '9999999"),
        (
            "octofold-train techer a.toml",
            "",
            "there is no command 'techer'; did you mean teacher?",
        ),
        (
            "octofold-train xyz a.toml",
            "",
            "there is no command 'xyz'; there are teacher, student, endgame, trim",
        ),
        (
            "octofold-train student a.toml --techer runs/other",
            "student",
            "there is no option --techer; did you mean --teacher?",
        ),
        (
            "octofold-train teacher a.toml --minuts=3",
            "teacher",
            "there is no option --minuts; did you mean --minutes?",
        ),
        ("octofold-train teacher a.toml --checkpoint b", "teacher", "there is no option --checkpoint"),
        (
            "octofold-train teacher a.toml --minutes soon",
            "teacher",
            "--minutes must be a number of minutes, from 0, got 'soon'",
        ),
        (
            "octofold-papers table --positions inf",
            "table",
            "--positions must be a whole number from 1, got 'inf'",
        ),
        ("octofold-papers moves log.txt --seed -1", "moves", f"--seed {SEED}, got '-1'"),
        (
            f"octofold-papers moves log.txt --seed {NINES}",
            "moves",
            f"--seed {SEED}, got '{NINES[:99]}...",
        ),
        ("octofold-train teacher", "teacher", "recipe is missing"),
        ("octofold-train endgame --five 100", "endgame", f"--five {TILE}, got '100'"),
        (
            "octofold-train endgame --six 1042",
            "endgame",
            f"--six {TILE}, got '1042'; did you mean 1024?",
        ),
        (
            "octofold-papers table --positions 8 --rows qqq",
            "table",
            f"--rows must be {', '.join(list(ROWS)[:-1])} or {list(ROWS)[-1]}, got 'qqq'",
        ),
    ],
)
def test_a_mistyped_command_line_is_one_line_that_says_what_was_probably_meant(
    typed: str, at: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *arguments = shlex.split(typed)
    with pytest.raises(SystemExit) as stopped:
        sys.exit(COMMANDS[program](arguments))
    assert stopped.value.code == 2
    output, errors = capsys.readouterr()
    assert output == ""
    (line,) = errors.splitlines()
    command = f"{program} {at}".strip()
    assert line.startswith(f"{command}: {message}")
    assert line.endswith(f"(see {command} --help)")
    assert len(line) < 300


@pytest.mark.parametrize(
    ("command", "word"), [(command, word) for command in REMOVED for word in REMOVED[command]]
)
def test_what_is_gone_says_what_to_do_instead(
    command: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *subcommands = command.split()
    with pytest.raises(SystemExit) as stopped:
        sys.exit(COMMANDS[program]([*subcommands, word]))
    assert stopped.value.code == 2
    instead = REMOVED[command][word]
    assert capsys.readouterr().err == f"{command}: {word} is gone: {instead} (see {command} --help)\n"


@pytest.mark.parametrize("margin", ["0%", "100%", "-1%", "nan%", "two%", "1e-3%", f"{NINES}%"])
def test_a_margin_is_a_percentage_between_0_and_100(margin: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        octofold_client.cli.main(["compare", "a", "b", f"--no-worse-than={margin}"])
    assert stopped.value.code == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert PERCENTAGE in errors
