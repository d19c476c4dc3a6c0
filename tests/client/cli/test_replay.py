"""`octofold replay`: a game on a real terminal, stepped through by real keys, with a real model's opinion."""

import re
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from octofold_client import Client
from octofold_client.cli.replay import chosen
from octofold_client.errors import EvaluationError
from octofold_game.replays import read_replays
from octofold_game.trajectories import Walk
from support.commands import octofold
from support.terminals import END, HOME, LEFT, PAGE_DOWN, RIGHT, SECONDS, Screen


@pytest.fixture
def open_screen() -> Iterator[Callable[..., Screen]]:
    screens: list[Screen] = []

    def open_screen(*arguments: str | Path, **terminal: Any) -> Screen:
        screens.append(Screen("replay", *arguments, **terminal))
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
    screen.shows(rf"game {best.game} of seed 7[\s\S]*move 0 of {last}[\s\S]*score 0[\s\S]*next [↑→↓←]")
    screen.type(RIGHT)
    screen.shows(f"move 1 of {last}")
    screen.type(RIGHT + RIGHT + LEFT)
    screen.shows(f"move 2 of {last}")
    screen.type("57\n")
    screen.shows(f"move 57 of {last}")
    screen.type(PAGE_DOWN)
    screen.shows(f"move 157 of {last}")
    screen.type(END)
    screen.shows(rf"move {last} of {last}[\s\S]*score {best.score:,}[\s\S]*the game is over")
    screen.type(HOME)
    screen.shows(f"move 0 of {last}")
    screen.type("q")
    assert screen.process.wait(SECONDS) == 0
    assert termios.tcgetattr(screen.other) == screen.before


def test_the_replay_begins_at_the_move_asked_for(games: Path, open_screen: Callable[..., Screen]) -> None:
    screen = open_screen(games, "--game", "3", "--move", "21")
    screen.shows(r"game 3 of seed 7[\s\S]*move 21 of ")
    screen.type(LEFT)
    screen.shows("move 20 of ")
    screen.type("q")
    assert screen.process.wait(SECONDS) == 0


def test_the_replay_plays_by_itself_at_the_speed_asked_for_until_stopped(
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
    screen = open_screen(games, "--game", "3", "--judge", "small", "--target", target)
    screen.shows("game 3 of seed 7")
    screen.shows(r"small version 1[\s\S]*↑ up +\d+\.\d% [\s\S]*\d/8[\s\S]*← left")
    screen.type(RIGHT)
    screen.shows(r"move 1 of[\s\S]*its choice")
    screen.type(END)
    screen.shows("the game is over")
    screen.type("q")
    assert screen.process.wait(SECONDS) == 0


def test_ctrl_c_leaves_and_puts_the_terminal_back(games: Path, open_screen: Callable[..., Screen]) -> None:
    screen = open_screen(games)
    screen.shows("move 0 of")
    screen.interrupt()
    assert screen.process.wait(SECONDS) == 130
    assert termios.tcgetattr(screen.other) == screen.before


def test_replay_without_a_terminal_says_that_it_needs_one(games: Path) -> None:
    done = octofold("replay", games)
    assert done.returncode == 1
    assert done.stderr == "octofold: replay needs a terminal; --out FILE.txt writes the game as text\n"


def test_the_replay_steps_to_the_moves_that_the_model_would_make_otherwise(
    games: Path, target: str, open_screen: Callable[..., Screen]
) -> None:
    walk = Walk.of(chosen(games / "games.replay", 3))
    with Client(target) as client:
        choices = client.next_moves(walk.boards[:-1]).moves
    first, second, *_, last = np.flatnonzero(choices != walk.moves)[1:].tolist()
    judge = ("--judge", "small", "--target", target)
    screen = open_screen(games, "--game", "3", "--move", str(first - 1), *judge)
    screen.shows(f"move {first - 1} of ")
    for key, move in [("d", first), ("d", second), ("D", first), (END + "D", last)]:
        screen.type(key)
        screen.shows(rf"move {move} of [\s\S]*its choice")
    screen.type("d")
    screen.shows("no other disagreement")
    screen.type("q")
    screen.ends()


def test_the_replay_steps_to_the_next_game_and_the_one_before_also_without_colors(
    games: Path, open_screen: Callable[..., Screen]
) -> None:
    screen = open_screen(games, "--game", "37", columns=80, lines=24, NO_COLOR="1")
    screen.shows("game 37 of seed 7[\\s\\S]*┌────────┬[\\s\\S]*├────────┼[\\s\\S]*└────────┴")
    screen.type("gg")
    screen.shows("game 39 of seed 7")
    screen.type("g")
    screen.shows("this is the last game")
    screen.type("G")
    screen.shows("game 38 of seed 7[\\s\\S]*move 0 of")
    screen.type("d")
    screen.shows("c and d need --judge")
    screen.type("q")
    screen.ends()
    assert re.search(r"\x1b\[[\d;]*[34]8?;[\d;]*m", screen.raw) is None  # no color is set


def test_a_dumb_terminal_gets_one_board_below_the_other(
    games: Path, open_screen: Callable[..., Screen]
) -> None:
    screen = open_screen(games, TERM="dumb")
    screen.shows("┌────────┬[\\s\\S]*move 0 of")
    screen.type(RIGHT)
    screen.shows("┌────────┬[\\s\\S]*move 1 of")
    screen.type("q")
    screen.ends()
    assert "\x1b" not in screen.raw


def test_best_and_worst_and_a_number_name_a_game(games: Path) -> None:
    file = games / "games.replay"
    scores = {episode.game: episode.score for episode in read_replays(file)}
    assert chosen(file, "best").score == max(scores.values())
    assert chosen(file, "worst").score == min(scores.values())
    assert chosen(file, 17).game == 17
    with pytest.raises(EvaluationError, match="does not contain game 40; its last game is 39"):
        chosen(file, 40)
