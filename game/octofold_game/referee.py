"""Checks recorded games by replaying them with a second implementation of the rules.

This implementation is plain Python and moves one cell at a time. It shares no table and no code with
`rules.py` and `spawns.py`, which made the games, so it finds mistakes in both modules.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from octofold_game.episodes import Episode
from octofold_game.errors import OctofoldError

# The four lines of cells for each move (up, right, down, left). Tiles slide to a line's first cell.
_LINES = (
    tuple((column, column + 4, column + 8, column + 12) for column in range(4)),
    tuple((row + 3, row + 2, row + 1, row) for row in (0, 4, 8, 12)),
    tuple((column + 12, column + 8, column + 4, column) for column in range(4)),
    tuple((row, row + 1, row + 2, row + 3) for row in (0, 4, 8, 12)),
)
_GAMMA = 0x9E3779B97F4A7C15


class ReplayError(OctofoldError):
    """An error about a replay that cannot be read, or that was not played by the rules.

    `game` is the index of the game, and `offset` the byte at which its record begins; None if unknown.
    """

    def __init__(self, message: str, game: int | None = None, offset: int | None = None) -> None:
        super().__init__(message)
        self.game = game
        self.offset = offset


def verify(episode: Episode, *, may_go_on: bool = False) -> None:
    """Replay a game and check it against the rules.

    The checks: every move changes the board; every spawned tile, including the two starting tiles, is the one
    that the seed determines; the score and the final board are correct; and the game ended exactly when no
    move was legal or the largest exponent was exceeded. With `may_go_on`, the game need not be over.

    Raises:
        ReplayError: a check failed; the error names the game and, if a move is wrong, its number.
    """
    bits = _spawn_bits(episode.seed, episode.game)
    board = [0] * 16
    for _ in range(2):
        cell, exponent = _spawn(board, next(bits))
        board[cell] = exponent
    if board != episode.start.tolist():
        raise _error(episode, "does not start with the two tiles of its seed")
    score = 0
    for number, byte in enumerate(episode.moves):
        if max(board) > episode.largest_exponent:
            raise _error(episode, f"exceeds its largest exponent, but continues with move number {number}")
        board, reward = _slide(board, byte & 3)
        if reward is None:
            raise _error(episode, f"has an illegal move, move number {number}")
        score += reward
        cell, exponent = _spawn(board, next(bits))
        if byte >> 2 != cell | (exponent - 1) << 4:
            raise _error(episode, f"has a tile after move number {number} that its seed does not spawn")
        board[cell] = exponent
    if board != episode.final_board.tolist():
        recorded = episode.final_board.tolist()
        raise _error(episode, f"ends with the board {board}, but the record says {recorded}")
    if score != episode.score:
        raise _error(episode, f"scores {score}, but the record says {episode.score}")
    over = episode.outgrown or all(_slide(board, move)[1] is None for move in range(4))
    if not over and not may_go_on:
        raise _error(episode, "ends while a move is still possible")


def _slide(board: list[int], move: int) -> tuple[list[int], int | None]:
    """Return the afterstate and the reward; the reward is None if the move changes nothing."""
    slid = board.copy()
    reward = 0
    for first, second, third, fourth in _LINES[move]:
        line = board[first], board[second], board[third], board[fourth]
        (slid[first], slid[second], slid[third], slid[fourth]), gained = _slide_line(line)
        reward += gained
    return slid, reward if slid != board else None


@lru_cache(1 << 17)  # larger than the number of possible lines, 18**4
def _slide_line(line: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Slide four cells toward the first one; return the cells and the reward."""
    made: list[int] = []
    reward = 0
    may_merge = False
    for exponent in line:
        if not exponent:
            continue
        if may_merge and made[-1] == exponent:
            made[-1] += 1
            reward += 1 << made[-1]
            may_merge = False
        else:
            made.append(exponent)
            may_merge = True
    return tuple(made + [0] * (4 - len(made))), reward


def _spawn(board: list[int], bits: int) -> tuple[int, int]:
    """Return the cell and the exponent of the new tile, from the high and the low half of the random bits."""
    empty = [cell for cell in range(16) if not board[cell]]
    return empty[(bits >> 32) * len(empty) >> 32], 2 if bits % 2**32 < 429_496_730 else 1


def _spawn_bits(seed: int, game: int) -> Iterator[int]:
    """Yield the splitmix64 stream of a game, whose initial state is output `game` of the seed's stream."""
    state = _mixed(_mixed(seed) + (game + 1) * _GAMMA)
    while True:
        state += _GAMMA
        yield _mixed(state)


def _mixed(z: int) -> int:
    z %= 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def _error(episode: Episode, what: str) -> ReplayError:
    return ReplayError(f"game {episode.game} of seed {episode.seed} {what}", episode.game)
