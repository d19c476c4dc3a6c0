"""2048 in numpy, and a teacher that looks one move ahead; an example of your own game code."""

from __future__ import annotations

import numpy as np

MOVES = ("up", "down", "left", "right")  # the order of this code; the export must know it


def slide_left(boards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boards `[N, 4, 4]` of exponents after a move to the left, and its points `[N]`."""
    rows = boards.reshape(-1, 4)
    order = np.argsort(rows == 0, axis=1, kind="stable")  # tiles first, in their order
    rows = np.take_along_axis(rows, order, axis=1).astype(np.int64)
    points = np.zeros(len(rows), np.int64)
    for cell in range(3):
        merges = (rows[:, cell] > 0) & (rows[:, cell] == rows[:, cell + 1])
        rows[merges, cell] += 1
        points[merges] += 2 ** rows[merges, cell]
        rows[merges, cell + 1 :] = np.pad(rows[merges, cell + 2 :], ((0, 0), (0, 1)))
    return rows.reshape(boards.shape), points.reshape(len(boards), 4).sum(axis=1)


def slide(boards: np.ndarray, move: int) -> tuple[np.ndarray, np.ndarray]:
    """Boards after a move, in the order of `MOVES`, and its points."""
    turns = {"left": 0, "up": 1, "right": 2, "down": 3}[MOVES[move]]
    after, points = slide_left(np.rot90(boards, turns, axes=(1, 2)))
    return np.rot90(after, -turns, axes=(1, 2)), points


def spawn(boards: np.ndarray, random: np.random.Generator) -> None:
    """Put a 2, or in one case of ten a 4, into an empty cell of each board."""
    empty = np.where(boards.reshape(-1, 16) == 0, random.random((len(boards), 16)), -1)
    tiles = np.where(random.random(len(boards)) < 0.9, 1, 2)
    boards.reshape(-1, 16)[np.arange(len(boards)), empty.argmax(axis=1)] = tiles


def teach(boards: np.ndarray) -> np.ndarray:
    """The teacher's score of each move, `[N, 4]`; `-inf` if a move changes nothing.

    The score prefers empty cells, and tiles that decrease along a snake from the top left.
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
    """`count` boards `[count, 4, 4]` from the teacher's games, and its moves `[count]`."""
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
        boards[~running] = 0  # finished games start again
        spawn(boards, random)
    return np.concatenate(seen)[:count], np.concatenate(moves)[:count]
