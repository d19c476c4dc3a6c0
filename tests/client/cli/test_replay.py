"""`octofold replay`: a game on a real terminal, stepped through by real keys, with a real model's opinion."""

import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path

import pytest
from octofold_client.cli.replay import chosen
from octofold_client.errors import EvaluationError
from octofold_game.replays import read_replays
from support.commands import octofold

OCTOFOLD = Path(sys.executable).with_name("octofold")
RIGHT, LEFT, END, HOME, PAGE_DOWN = "\x1b[C", "\x1b[D", "\x1b[F", "\x1b[H", "\x1b[6~"
SECONDS = 30


class Screen:
    """A terminal with `octofold replay` on it."""

    def __init__(self, *arguments: str | Path) -> None:
        self.terminal, other = pty.openpty()
        ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.before = termios.tcgetattr(other)
        self.process = subprocess.Popen(
            [OCTOFOLD, "replay", *arguments],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"},
        )
        self.other = other
        self.seen = ""

    def type(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def shows(self, pattern: str) -> re.Match[str]:
        """Waits until the screen shows the pattern, anew since what was waited for last."""
        give_up = time.monotonic() + SECONDS
        while (match := re.search(pattern, self.seen)) is None:
            assert time.monotonic() < give_up, self.seen[-3000:]
            if select.select([self.terminal], [], [], 0.1)[0]:
                raw = os.read(self.terminal, 65536).decode(errors="replace")
                self.seen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", raw)
        self.seen = self.seen[match.end() :]
        return match

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(SECONDS)
        os.close(self.terminal)
        os.close(self.other)


@pytest.fixture
def open_screen() -> Iterator[Callable[..., Screen]]:
    screens: list[Screen] = []

    def open_screen(*arguments: str | Path) -> Screen:
        screens.append(Screen(*arguments))
        return screens[-1]

    yield open_screen
    for screen in screens:
        screen.close()


def test_a_game_is_stepped_through_forwards_backwards_and_by_jumps(
    games: Path, open_screen: Callable[..., Screen]
) -> None:
    best = max(read_replays(games / "games.replay"), key=lambda episode: episode.score)
    last = f"{len(best):,}"
    screen = open_screen(games)
    screen.shows(rf"game {best.game} of seed 7[\s\S]*move 0 of {last}   score 0   next [↑→↓←]")
    screen.type(RIGHT)
    screen.shows(f"move 1 of {last}")
    screen.type(RIGHT + RIGHT + LEFT)
    screen.shows(f"move 2 of {last}")
    screen.type("57\n")
    screen.shows(f"move 57 of {last}")
    screen.type(PAGE_DOWN)
    screen.shows(f"move 157 of {last}")
    screen.type(END)
    screen.shows(rf"move {last} of {last}   score {best.score:,}   the game is over")
    screen.type(HOME)
    screen.shows(f"move 0 of {last}")
    screen.type("q")
    assert screen.process.wait(SECONDS) == 0
    assert termios.tcgetattr(screen.other) == screen.before


def test_it_begins_at_the_move_asked_for(games: Path, open_screen: Callable[..., Screen]) -> None:
    screen = open_screen(games, "--game", "3", "--move", "21")
    screen.shows(r"game 3 of seed 7[\s\S]*move 21 of ")
    screen.type(LEFT)
    screen.shows("move 20 of ")
    screen.type("q")
    assert screen.process.wait(SECONDS) == 0


def test_it_plays_by_itself_at_the_speed_asked_for_until_stopped(
    games: Path, open_screen: Callable[..., Screen]
) -> None:
    screen = open_screen(games / "games.replay", "--game", "worst")
    screen.shows("5 moves/s")
    screen.type("+++")
    screen.shows("50 moves/s")
    screen.type(" ")
    screen.shows("move 12 of")
    screen.shows("playing at 50 moves/s")
    screen.type(" ")
    screen.shows("(?<!playing at )50 moves/s")
    screen.type("q")
    assert screen.process.wait(SECONDS) == 0


def test_the_model_says_what_it_thinks_of_each_move(
    games: Path, target: str, open_screen: Callable[..., Screen]
) -> None:
    screen = open_screen(games, "--game", "3", "--target", target)
    screen.shows("game 3 of seed 7")
    screen.shows(r"small version 1[\s\S]*↑ up +\d+\.\d% [\s\S]*\d votes?[\s\S]*← left")
    screen.type(RIGHT)
    screen.shows(r"move 1 of[\s\S]*its choice")
    screen.type(END)
    screen.shows("the game is over")
    screen.type("q")
    assert screen.process.wait(SECONDS) == 0


def test_ctrl_c_leaves_and_puts_the_terminal_back(games: Path, open_screen: Callable[..., Screen]) -> None:
    screen = open_screen(games)
    screen.shows("move 0 of")
    screen.process.send_signal(signal.SIGINT)
    assert screen.process.wait(SECONDS) == 130
    assert termios.tcgetattr(screen.other) == screen.before


def test_without_a_terminal_it_says_that_it_needs_one(games: Path) -> None:
    done = octofold("replay", games)
    assert done.returncode == 1
    assert done.stderr == "octofold: replay needs a terminal; octofold verify works without one\n"


def test_best_and_worst_and_a_number_name_a_game(games: Path) -> None:
    file = games / "games.replay"
    scores = {episode.game: episode.score for episode in read_replays(file)}
    assert chosen(file, "best").score == max(scores.values())
    assert chosen(file, "worst").score == min(scores.values())
    assert chosen(file, 17).game == 17
    with pytest.raises(EvaluationError, match="does not contain game 40; its last game is 39"):
        chosen(file, 40)
