"""Shell completion of all commands: what the tab key offers, in bash itself."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import octofold_client.cli
import octofold_export.cli
import octofold_papers.cli
import octofold_server.cli
import octofold_training.cli
import pytest
from octofold_game.commands.completion import SHELLS

Main = Callable[[Sequence[str]], int]
COMMANDS: dict[str, Main] = {
    "octofold": octofold_client.cli.main,
    "octofold-serve": octofold_server.cli.main,
    "octofold-export": lambda arguments: octofold_export.cli.main(list(arguments)),
    "octofold-papers": lambda arguments: octofold_papers.cli.main(list(arguments)),
    "octofold-train": lambda arguments: octofold_training.cli.main(list(arguments)),
}


def script(command: str, shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        COMMANDS[command](["--completion", shell])
    assert ended.value.code in (0, None)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("octofold ev", {"evaluate"}),
        ("octofold report FOLDER", {"FOLDER-1"}),
        ("octofold-serve --max-ba", {"--max-batch-size"}),
        ("octofold-export --rule m", {"mean"}),
        ("octofold-export --weights FI", {"FILE"}),
        ("octofold-papers imi", {"imitation"}),
    ],
)
def test_bash_offers_what_fits(
    line: str, offered: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "FOLDER-1").mkdir()
    (tmp_path / "FILE").touch()
    command, *words = line.split(" ")
    typed = " ".join(f"'{word}'" for word in (command, *words))
    asked = (
        f"{script(command, 'bash', capsys)}\n"
        f"COMP_WORDS=({typed}); COMP_CWORD={len(words)}\n"
        f"function=$(complete -p {command} | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
        f"$function {command} '{words[-1]}' '{[command, *words][-2]}'\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc"], input=asked, capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert (set(done.stdout.split()), done.stderr) == (offered, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_each_shell_has_a_script_that_names_every_flag(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scripts = {shell: script(command, shell, capsys) for shell in SHELLS}
    assert f"#compdef {command}\n" in scripts["zsh"]
    flags = re.findall(rf"^complete -c {command} .*-l ([a-z-]+) ", scripts["fish"], re.MULTILINE)
    assert len(flags) > 5
    assert all(f"--{flag}" in scripts["bash"] and f"--{flag}" in scripts["zsh"] for flag in flags)


def test_a_reader_that_has_enough_of_the_script_is_no_error() -> None:
    octofold = Path(sys.executable).with_name("octofold")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([octofold, "--completion", "zsh"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
