"""Replays many finished games at once, and returns their positions and new tiles.

This module does not check the records. `referee.py` does.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from octofold_game.episodes import Episode
from octofold_game.rules import slide

GAMES_AT_ONCE = 2_048
"""Number of games to replay at once, which bounds the memory."""


def batched(episodes: Iterable[Episode], size: int) -> Iterator[list[Episode]]:
    """Yield the games in lists of `size`; the last list may be shorter."""
    games = iter(episodes)
    while batch := list(islice(games, size)):
        yield batch


class NewTiles(NamedTuple):
    """The new tiles after move number `k` of several games; `k` is the same for all games."""

    afterstates: NDArray[np.uint8]
    """`[N, 16]`: the afterstates, to which the tiles are added."""
    tiles: NDArray[np.uint8]
    """`[N]`: 0 for a tile 2, 1 for a tile 4."""
    cells: NDArray[np.uint8]
    """`[N]`: the cells of the new tiles."""
    scores: NDArray[np.int64]
    """`[N]`: the scores after the move."""


def new_tiles_by_move(episodes: Sequence[Episode]) -> Iterator[NewTiles]:
    """Yield a `NewTiles` for each move number. Its rows are the games, the longest game first."""
    for _, made, afterstates, scores in _steps(_longest_first(episodes)):
        tiles, cells = (made >> 6).astype(np.uint8), (made >> 2 & 15).astype(np.uint8)
        yield NewTiles(afterstates, tiles, cells, scores)


@dataclass(frozen=True)
class Positions:
    """Positions of finished games; row `i` of each array belongs to the same position."""

    games: NDArray[np.int64]
    """`[P]`: index of the game among the games of its seed."""
    numbers: NDArray[np.int64]
    """`[P]`: number of moves made before the position."""
    left: NDArray[np.int64]
    """`[P]`: number of moves that follow until the end of the game; 1 before its last move."""
    boards: NDArray[np.uint8]
    """`[P, 16]`: the boards."""
    made: NDArray[np.uint8]
    """`[P]`: the move made on the board, 0 to 3."""
    cells: NDArray[np.uint8]
    """`[P]`: the cell of the tile that appeared after this move."""

    def __len__(self) -> int:
        return len(self.games)

    @classmethod
    def joined(cls, parts: "Sequence[Positions]") -> "Positions":
        """Concatenate the positions of at least one part."""
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))


def last_positions(episodes: Sequence[Episode], count: int) -> Positions:
    """Return the positions before the last `count` moves of each game, sorted by the games' indices."""
    games = _longest_first(episodes)
    lengths = np.array([len(game) for game in games], np.int64)
    parts = []
    for number, (boards, made, _, _) in enumerate(_steps(games)):
        left = lengths[: len(boards)] - number
        first = int(np.searchsorted(-left, -count))  # the first of the games with at most `count` moves left
        if first < len(boards):
            rows = np.arange(first, len(boards))
            parts.append((rows, np.full(len(rows), number), left[first:], boards[first:], made[first:]))
    rows, numbers, left, boards, made = (np.concatenate(column) for column in zip(*parts, strict=True))
    indices = np.array([game.game for game in games], np.int64)[rows]
    order = np.lexsort((numbers, indices))
    moves, cells = (made & 3).astype(np.uint8), (made >> 2 & 15).astype(np.uint8)
    return Positions(indices[order], numbers[order], left[order], boards[order], moves[order], cells[order])


def all_positions(episodes: Sequence[Episode]) -> Positions:
    """Return the positions before all moves of each game, sorted by the games' indices."""
    return last_positions(episodes, max(map(len, episodes)))


def _longest_first(episodes: Sequence[Episode]) -> list[Episode]:
    return sorted(episodes, key=len, reverse=True)


class _Step(NamedTuple):
    """Move number `k` of all games with more than `k` moves; the longest game is first."""

    boards: NDArray[np.uint8]
    """`[N, 16]`: the boards before the move."""
    made: NDArray[np.uint8]
    """`[N]`: moves and new tiles, as in `Episode.moves`."""
    afterstates: NDArray[np.uint8]
    """`[N, 16]`: the afterstates."""
    scores: NDArray[np.int64]
    """`[N]`: the scores after the move."""


def _steps(games: Sequence[Episode]) -> Iterator[_Step]:
    """Yield one step for each move number. The games must be sorted, the longest first."""
    # Because of this order, the games that have not ended are the first rows.
    lengths = [len(game) for game in games]
    moves = np.zeros((lengths[0], len(games)), np.uint8)
    for column, game in enumerate(games):
        moves[: lengths[column], column] = np.frombuffer(game.moves, np.uint8)
    boards = np.stack([game.start for game in games])
    scores = np.zeros(len(games), np.int64)
    rows = np.arange(len(games))
    running = len(games)
    for number, row in enumerate(moves):
        while lengths[running - 1] <= number:
            running -= 1
        made = row[:running]
        before = boards[:running]
        afterstates, rewards = slide(before, made & 3)
        boards = afterstates.copy()
        boards[rows[:running], made >> 2 & 15] = 1 + (made >> 6)
        scores = scores[:running] + rewards
        yield _Step(before, made, afterstates, scores)


@dataclass(frozen=True)
class Trajectory:
    """The boards, scores and moves of one game."""

    boards: NDArray[np.uint8]
    """`[M + 1, 16]`: the starting board, and the board after each move and its new tile."""
    scores: NDArray[np.int64]
    """`[M + 1]`: the score on each board."""
    moves: NDArray[np.uint8]
    """`[M]`: the moves, 0 to 3; move `i` is made on board `i`."""

    @classmethod
    def of(cls, episode: Episode) -> "Trajectory":
        """Replay a finished game and return its trajectory."""
        boards, scores = [], [0]
        for step in _steps([episode]):
            boards.append(step.boards[0])
            scores.append(int(step.scores[0]))
        moves = (np.frombuffer(episode.moves, np.uint8) & 3).astype(np.uint8)
        return cls(np.stack([*boards, episode.final_board]), np.array(scores), moves)
