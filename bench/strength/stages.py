"""Measures the moments at which strong games end: the smallest of the large tiles has to be doubled.

    python bench/strength/stages.py --player perimeter:runs/endgame --games 400
    python bench/strength/stages.py --player perimeter:runs/endgame --tiles 32768,8192,1024,4096,2048

A game begins with two small tiles and five or six large ones, in the order in which they are named:

    16384  8192  1024  .
     4096  2048   [6]  .

It is won when the large ones have merged as far as they can, here into a 32768. That takes some 500 moves, so
that a few hundred games show what thousands of whole ones would. All players play the same games.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray
from octofold_client.contenders.local_players import local_player
from octofold_client.evaluation.intervals import share_interval
from octofold_game.player import Player
from octofold_game.rules import LARGEST_EXPONENT, slide
from octofold_game.spawns import SpawnStream, spawn

LARGE_CELLS = (0, 1, 2, 4, 5, 6)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--player", action="append", required=True, metavar="SPEC", help="may be repeated")
    parser.add_argument("--games", type=int, default=400, help="games per player (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the games (default: %(default)s)")
    parser.add_argument(
        "--tiles",
        type=_exponents,
        default="16384,8192,1024,4096,2048",
        help="the large tiles (default: %(default)s)",
    )
    options = parser.parse_args()
    large = options.tiles
    tiles = ",".join(str(1 << exponent) for exponent in large)
    print(f"{options.games} games of seed {options.seed} from {tiles} to {1 << goal(large)}")
    for spec in options.player:
        player = local_player(spec).player
        player.next_moves(starts(large, 1, options.seed))  # compiles it before it is timed
        began = time.process_time()
        won, moves = play(player, large, options.games, options.seed)
        speed = moves / (time.process_time() - began)
        low, high = share_interval(int(won.sum()), len(won))
        print(f"{spec}: {won.mean():.1%} won ({low:.1%} to {high:.1%}), {speed:,.0f} moves/CPU s", flush=True)


def _exponents(text: str) -> list[int]:
    tiles = {str(1 << exponent): exponent for exponent in range(1, LARGEST_EXPONENT)}
    large = text.split(",")
    if len(large) not in (5, 6) or not tiles.keys() >= set(large):
        example = "2048,512,64,256,128"
        raise argparse.ArgumentTypeError(f"must be five or six tiles such as {example}, not {text!r}")
    return [tiles[tile] for tile in large]


def goal(large: list[int]) -> int:
    """The exponent that the large tiles make once another one like the smallest of them is there."""
    exponent = min(large)
    while exponent in large:
        exponent += 1
    return exponent


def starts(large: list[int], games: int, seed: int) -> NDArray[np.uint8]:
    """The boards at the start: `[games, 16]`."""
    boards = np.zeros((games, 16), np.uint8)
    boards[:, LARGE_CELLS[: len(large)]] = large
    for number in range(2):
        boards = spawn(boards, _bits(np.arange(games), number, seed))
    return boards


def play(player: Player, large: list[int], games: int, seed: int) -> tuple[NDArray[np.bool_], int]:
    """Which of the games are won, and how many moves they took in all."""
    boards, running = starts(large, games, seed), np.arange(games)
    won, moves, number = np.zeros(games, np.bool_), 0, 2
    while len(running):
        chosen = player.next_moves(boards)
        running, boards, chosen = running[chosen >= 0], boards[chosen >= 0], chosen[chosen >= 0]
        moves += len(running)
        boards, _ = slide(boards, chosen)
        reached = (boards == goal(large)).any(axis=1)
        won[running[reached]] = True
        running, boards = running[~reached], boards[~reached]
        boards = spawn(boards, _bits(running, number, seed)) if len(running) else boards
        number += 1
    return won, moves


def _bits(games: NDArray[np.intp], number: int, seed: int) -> NDArray[np.uint64]:
    return SpawnStream(seed).bits(games.astype(np.uint64), np.full(len(games), number, np.uint64))


if __name__ == "__main__":
    main()
