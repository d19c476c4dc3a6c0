"""`octofold hand` on a real terminal, with real key presses and advisers."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from octofold_game.replays import read_replays
from support.commands import octofold
from support.terminals import DOWN, LEFT, OCTOFOLD, RIGHT, SECONDS, UP, Screen

OpenScreen = Callable[..., Screen]
TURNS = "hjkl" * 250
"""Keys for more moves than a game of these keys has. The keys after its end do nothing."""


@pytest.fixture
def open_screen() -> Iterator[OpenScreen]:
    screens: list[Screen] = []

    def open_screen(*arguments: str | Path, **terminal: object) -> Screen:
        screens.append(Screen("hand", *arguments, **terminal))  # type: ignore[arg-type]
        return screens[-1]

    yield open_screen
    for screen in screens:
        screen.close()


def run(*arguments: str | Path) -> str:
    done = octofold(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_finished_game_can_be_verified_and_analysed(tmp_path: Path, open_screen: OpenScreen) -> None:
    screen = open_screen("--out", tmp_path, "--seed", "7")
    screen.shows(r"score 0   largest tile [24]\s[\s\S]*game 0, move 0[\s\S]*legal: ")
    assert "48;5;" in screen.raw  # 256 colors
    screen.type(LEFT + DOWN + RIGHT + UP)
    screen.shows(r"game 0, move [34]")
    screen.type(TURNS)
    screen.shows("The game is over")
    screen.type("n")
    screen.shows("game 1, move 0")
    screen.type("l")
    screen.shows(r"move [01]")
    screen.type("lhjq")
    screen.shows("1 finished and 1 unfinished games are kept in")
    screen.ends()
    finished, unfinished = run("verify", tmp_path).splitlines()
    assert finished.startswith(f"{tmp_path / 'games.replay'}: 1 game, ")
    assert unfinished.startswith(f"{tmp_path / 'unfinished.replay'}: 1 unfinished game, ")
    assert "hand: the last 50 moves of 1 game, seed 7" in run("analyse", tmp_path)
    assert len(list(read_replays(tmp_path / "unfinished.replay"))) == 1


def test_the_same_command_continues_the_unfinished_game(tmp_path: Path, open_screen: OpenScreen) -> None:
    screen = open_screen("--out", tmp_path)
    screen.shows("game 0, move 0")
    screen.type("hjklhjkl")
    moves = screen.shows(r"game 0, move ([3-8])")[1]
    screen.type("u")
    screen.shows(f"move {int(moves) - 1}")
    screen.type("q")
    screen.ends()
    again = open_screen("--out", tmp_path)
    again.shows(f"game 0, move {int(moves) - 1}")
    again.type("q")
    again.ends()


@pytest.mark.parametrize("how", ["Ctrl-C", "Ctrl-D"])
def test_a_game_by_hand_is_kept_and_the_terminal_restored_however_it_ends(
    how: str, tmp_path: Path, open_screen: OpenScreen
) -> None:
    screen = open_screen("--out", tmp_path)
    screen.shows("game 0, move 0")
    screen.type("hjkl")
    screen.shows(r"move [2-4]")
    if how == "Ctrl-C":
        screen.interrupt()
        screen.shows("interrupted")
        screen.ends(130)
    else:
        screen.type("\x04")
        screen.ends()
    assert screen.raw.rfind("\x1b[?1049l") > screen.raw.rfind("\x1b[?1049h") > -1
    assert 2 <= len(next(read_replays(tmp_path / "unfinished.replay"))) <= 4


def test_ctrl_z_goes_back_to_the_shell_and_fg_to_the_game(tmp_path: Path) -> None:
    shell = ("--ctty", "--wait", "bash", "--norc", "-i")  # a shell with job control
    screen = Screen(*shell, program=Path("/usr/bin/setsid"), PS1="shell> ")
    command = f"{shlex.quote(str(OCTOFOLD))} hand --seed 9 --out {shlex.quote(str(tmp_path))}\n"
    screen.type(command)
    screen.shows("game 0, move 0")
    for _ in range(2):
        screen.type("\x1a")
        screen.shows(r"Stopped[\s\S]*shell> ")
        assert screen.raw.rfind("\x1b[?1049l") > screen.raw.rfind("\x1b[?1049h") > -1
        screen.type("fg\n")
        screen.shows("quit")
    screen.type("hjkl")
    screen.shows(r"game 0, move [2-4]")
    screen.type("q")
    screen.shows("0 finished and 1 unfinished games are kept in")
    screen.type("exit\n")
    screen.ends()
    screen.close()


def test_a_killed_program_keeps_the_game(tmp_path: Path, open_screen: OpenScreen) -> None:
    screen = open_screen("--out", tmp_path)
    screen.shows("game 0, move 0")
    screen.type("hjkl")
    screen.shows(r"move [2-4]")
    screen.type("u")
    screen.shows(r"move [1-3]")
    screen.process.kill()
    screen.process.wait(SECONDS)
    assert len(next(read_replays(tmp_path / "unfinished.replay"))) >= 1


@pytest.mark.parametrize("judge", [("--judge", "small"), ()])
def test_a_served_model_gives_probabilities_and_votes(
    tmp_path: Path, target: str, open_screen: OpenScreen, judge: tuple[str, ...]
) -> None:
    screen = open_screen("--out", tmp_path, "--target", target, *judge, columns=80, lines=24)
    screen.shows(r"small version 1[\s\S]*↑ up +\d+\.\d% \d/8[\s\S]*its choice")
    screen.type("hjkl")
    screen.shows(r"small version 1 (agrees with|prefers) [↑→↓←] (up|right|down|left) \d+\.\d% \d/8")


def test_a_game_by_hand_without_a_terminal_is_refused(tmp_path: Path) -> None:
    done = octofold("hand", "--out", tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        "octofold: a game by hand needs a terminal as standard input and output\n",
    )
