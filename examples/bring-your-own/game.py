"""An example of your own game code: 2048 in numpy, and a teacher that looks one move ahead."""

from __future__ import annotations

import numpy as np

MOVES = ("up", "down", "left", "right")  # this code's order of the moves, which the export must know


def slide_left(boards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return boards `[N, 4, 4]` of exponents after a move to the left, and the points `[N]` of the move."""
    rows = boards.reshape(-1, 4)
    order = np.argsort(rows == 0, axis=1, kind="stable")  # moves tiles to the left and keeps their order
    rows = np.take_along_axis(rows, order, axis=1).astype(np.int64)
    points = np.zeros(len(rows), np.int64)
    for cell in range(3):
        merges = (rows[:, cell] > 0) & (rows[:, cell] == rows[:, cell + 1])
        rows[merges, cell] += 1
        points[merges] += 2 ** rows[merges, cell]
        rows[merges, cell + 1 :] = np.pad(rows[merges, cell + 2 :], ((0, 0), (0, 1)))
    return rows.reshape(boards.shape), points.reshape(len(boards), 4).sum(axis=1)


def slide(boards: np.ndarray, move: int) -> tuple[np.ndarray, np.ndarray]:
    """Return boards after a move, which is an index into `MOVES`, and the points `[N]` of the move."""
    turns = {"left": 0, "up": 1, "right": 2, "down": 3}[MOVES[move]]
    after, points = slide_left(np.rot90(boards, turns, axes=(1, 2)))
    return np.rot90(after, -turns, axes=(1, 2)), points


def spawn(boards: np.ndarray, random: np.random.Generator) -> None:
    """Put a new tile into a random empty cell of each board: a 2, or a 4 with probability 0.1."""
    empty = np.where(boards.reshape(-1, 16) == 0, random.random((len(boards), 16)), -1)
    tiles = np.where(random.random(len(boards)) < 0.9, 1, 2)
    boards.reshape(-1, 16)[np.arange(len(boards)), empty.argmax(axis=1)] = tiles


def teach(boards: np.ndarray) -> np.ndarray:
    """Return the teacher's scores `[N, 4]` of the moves; `-inf` for a move that changes nothing.

    A score is higher for empty cells, and for tiles that decrease along a snake from the top left.
    """
    snake = np.array([[15, 14, 13, 12], [8, 9, 10, 11], [7, 6, 5, 4], [0, 1, 2, 3]])
    scores = []
    for move in range(4):
        after, points = slide(boards, move)
        order = (after**2 * snake).sum(axis=(1, 2)) / 100
        score = order + 2 * (after == 0).sum(axis=(1, 2)) + 0.02 * points
        scores.append(np.where((after == boards).all(axis=(1, 2)), -np.inf, score))
    return np.stack(scores, axis=1)


def play(count: int, seed: int = 1, games: int = 256) -> tuple[np.ndarray, np.ndarray]:
    """Play games with the teacher; return boards `[count, 4, 4]` and the teacher's moves `[count]`."""
    random = np.random.default_rng(seed)
    boards = np.zeros((games, 4, 4), np.int64)
    seen: list[np.ndarray] = []
    moves: list[np.ndarray] = []
    while sum(map(len, seen)) < count:
        scores = teach(boards)
        best, running = scores.argmax(axis=1), np.isfinite(scores).any(axis=1)
        seen.append(boards[running])
        moves.append(best[running])
        for move in range(4):
            chosen = running & (best == move)
            boards[chosen] = slide(boards[chosen], move)[0]
        boards[~running] = 0  # a new game starts in place of a finished one
        spawn(boards, random)
    return np.concatenate(seen)[:count], np.concatenate(moves)[:count]
