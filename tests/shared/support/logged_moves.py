"""Moves of real games, for tests of play logs."""

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episode
from octofold_game.play_logs.moves import LoggedMoves
from octofold_game.rules import slide


def moves_of(episode: Episode) -> LoggedMoves:
    """Return the moves of one game, computed move by move."""
    board, boards = episode.start, []
    log = np.frombuffer(episode.moves, np.uint8)
    for byte in log.tolist():
        boards.append(board)
        (board,), _ = slide(board[None], np.array([byte & 3]))
        board[byte >> 2 & 15] = 1 + (byte >> 6)
    made, cells = (log & 3).astype(np.uint8), (log >> 2 & 15).astype(np.uint8)
    return LoggedMoves(np.stack(boards), made, cells)


def rows(moves: LoggedMoves) -> NDArray[np.uint8]:
    """Return `[N, 18]`: board, move and cell of each move."""
    return np.concatenate([moves.boards, moves.moves[:, None], moves.cells[:, None]], axis=1)
