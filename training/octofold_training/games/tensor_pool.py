"""A pool of running games on one device: half played by the teacher, half by the student.

`position_pool.PositionPool` is the counterpart on a CPU, with an explanation of the two halves. Here, every
step makes a move in all games of the pool, and the student's games restart from snapshots of the teacher's
boards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from octofold_training.games.tensor_environment import Environment, MoveTable
from octofold_training.games.tensor_teacher import EXPONENTS, TensorTeacher

_BETWEEN_SNAPSHOTS = 128
"""Moves from one snapshot to the next. The 64 snapshots of an `Environment` cover about one whole game."""
_STUDENT_RESTARTS = 0.75
"""Share of the student's games that begin with a board of the teacher."""


class TensorPool:
    """An even number of games in lockstep. The teacher plays the first half, always from the first move."""

    def __init__(self, games: int, table: MoveTable, generator: torch.Generator) -> None:
        """Begin the games on the device of `table` and `generator`."""
        self._teachers, self._students = (
            Environment(games // 2, EXPONENTS, generator, restart_share=share, table=table)
            for share in (0.0, _STUDENT_RESTARTS)
        )
        self._moves = 0

    def warm_up(self, teacher: TensorTeacher, moves: int) -> None:
        """Desynchronize the teacher's games by `moves` moves and restart the student's; 0 changes nothing."""
        for _ in desynchronize(self._teachers, teacher, moves):
            self._take_snapshot()
        if moves:
            self._students.restart()

    @property
    def boards(self) -> Tensor:
        """The boards `[B, 16] uint8` for the next `advance`. Each has a legal move."""
        return torch.cat([self._teachers.boards, self._students.boards])

    def advance(self, teacher_moves: Tensor, student_moves: Tensor) -> Tensor:
        """Make one legal move in each game: the teacher's in the first half, the student's in the second.

        Returns the number `[]` of the student's games that ended and were replaced.
        """
        half = len(teacher_moves) // 2
        self._teachers.step(teacher_moves[:half])
        ended = self._students.step(student_moves[half:])
        self._take_snapshot()
        return ended.sum()

    def _take_snapshot(self) -> None:
        if self._moves % _BETWEEN_SNAPSHOTS == 0:
            self._students.remember(self._teachers.boards)
        self._moves += 1

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs, except the generator."""
        return {"teachers": self._teachers.state(), "students": self._students.state(), "moves": self._moves}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from an earlier `state`.

        Raises:
            ValueError: the state has a different number of games.
        """
        self._teachers.restore(state["teachers"])
        self._students.restore(state["students"])
        self._moves = state["moves"]


def desynchronize(games: Environment, teacher: TensorTeacher, moves: int) -> Iterator[None]:
    """Let the teacher make exactly `moves` moves in each game, and yield after each move.

    Games with the same number of moves would reach their large merges at the same time. So each game is then
    set back to its board after a random number of these moves, below `moves`.
    """
    if not moves:
        return
    generator, reached = games.generator, games.boards
    lengths = torch.randint(moves, (len(reached),), generator=generator, device=generator.device)
    for move in range(moves):
        reached = torch.where((lengths == move)[:, None], games.boards, reached)
        games.step(teacher.action_values(games.boards).argmax(dim=1))
        yield
    games.restore(games.state() | {"boards": reached})
