"""Iterative deepening with limits on depth, time and cores. Another thread can cancel it.

With a time limit, the first search looks one move ahead, so that every board has an answer. It takes
microseconds and always finishes. Without `Limits.deeper`, the second search goes to the depth of the options
and may take half of the time. If this is not enough, further searches go one move deeper at a time up to this
depth. With `Limits.deeper`, they go on to the maximum depth. The deepest finished search counts.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.searches import Limits, SearchResult
from octofold_game.rules import LARGEST_EXPONENT, check_boards

from octofold_players.compiled.search_limits import NEVER, RUNNING, STOPPED, TURN_OVER, clock, deadline_in
from octofold_players.compiled.threads import numba_threads, parallel_for_each, spread_parts
from octofold_players.downgrading import pack_downgraded
from octofold_players.endgame.lookup import EndgameTable, endgame_moves
from octofold_players.local_player import ValuePlayer, best_moves, check_option

EVERY_MOVE = np.arange(4)
_SECONDS_TO_PREPARE = 0.01
_PART_BOARDS = 8
"""Maximum number of boards in a thread's part if `Limits.turn_seconds` is finite. When the time is over,
finished parts after an unfinished one are lost, so parts are small."""
_PAGE_BYTES = 4096


class Rows(NamedTuple):
    """The results of a search so far, a row for each of N boards."""

    values: NDArray[np.floating]
    """`[N, 4]`: the values of the moves."""
    depths: NDArray[np.uint8]
    """`[N]`: the depth to which each board was searched."""
    positions: NDArray[np.int64]
    """`[N]`: the number of positions visited for each board."""


class Budget(NamedTuple):
    """The time and threads that a search may use."""

    deadline: int = NEVER
    """The time of `search_limits.clock` at which the search ends."""
    stop: NDArray[np.uint8] | None = None
    """The flag that cancels the search; see `Limits.stop`."""
    threads: int = 1
    """Number of threads that share the moves of a board: more than 1 only for a single board."""
    turn_end: int = NEVER
    """The time of `search_limits.clock` after which the search begins no further board."""


class DeepeningSearch(ABC):
    """A `Search` (`octofold_game.contract.searches`) by iterative deepening. Subclasses define `search`."""

    largest_exponent = LARGEST_EXPONENT
    looks_ahead: ClassVar[bool] = False
    """Whether `pack_downgraded` halves large tiles before a search can make a 65536."""
    value_unit: str
    value_type: ClassVar[type[np.floating]] = np.float64
    most_depth: ClassVar[int]
    """Maximum search depth, both for the option `depth` and for a search with time to spare."""
    split_depth: ClassVar[int]
    """Minimum depth at which several threads share the moves of a single board."""

    def __init__(self, depth: int | None, cores: int | None, tables: tuple[EndgameTable, ...] = ()) -> None:
        """Make a search that looks up moves in endgame tables first.

        Args:
            depth: search depth. None: `depths` chooses it for each board.
            cores: number of cores. None: numba's default.
            tables: the endgame tables, in the order of lookup.

        Raises:
            OptionError: the depth is out of range.
        """
        if depth is not None:
            check_option("depth", depth, 1, self.most_depth)
        self._depth = depth
        self._cores = cores
        self.tables = tables
        self._board_seconds = 0.001
        """Recent average CPU time per board, measured on the thread that began the board. It decides how
        boards are spread over threads and does not affect answers."""

    def depths(self, boards: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """Return the search depths `[N]` of boards `[N]`, according to the options."""
        return np.full(len(boards), self._depth, np.uint8)

    @abstractmethod
    def search(
        self,
        boards: NDArray[np.uint64],
        depths: NDArray[np.uint8],
        moves: NDArray[np.int64],
        rows: Rows,
        budget: Budget,
    ) -> int:
        """Search the given moves of boards `[N]` to depths `[N]`, in order, and fill their rows.

        Only finished boards get values and depths. Boards already searched to their depths are skipped.

        Returns:
            `search_limits.RUNNING` if all boards are finished, otherwise the reason why the search ended.
        """

    def arrays(self) -> list[NDArray[np.generic]]:
        """Return the arrays that a search reads from files."""
        return [
            array for table in self.tables for array in (table.kept, table.before, table.moves, table.listed)
        ]

    def prepare(self) -> None:
        """Compile all code, and read all pages of the mapped files."""
        for array in self.arrays():
            array.reshape(-1)[:: _PAGE_BYTES // array.itemsize].max(initial=0)
        boards = np.zeros((8 * (self._cores or 1), 16), np.uint8)
        boards[:, :4] = 1, 2, 3, 4
        self.find(boards, Limits(_SECONDS_TO_PREPARE, deeper=True))
        self.find(boards[:1], Limits(_SECONDS_TO_PREPARE, deeper=True))

    def find(self, boards: NDArray[np.uint8], limits: Limits, /) -> SearchResult:
        """Implement `Search.find`.

        Raises:
            BoardError: a board is malformed or has an exponent above 17.
        """
        checked = check_boards(boards, self.largest_exponent)
        return self.find_packed(pack_downgraded(checked, ahead=self.looks_ahead), limits)

    def find_packed(self, boards: NDArray[np.uint64], limits: Limits) -> SearchResult:
        """Find moves for 64-bit boards `[N]`, as `find` does."""
        moves = np.full(len(boards), -1, np.int8)
        rows = self._empty_rows(len(boards))
        threads = self._threads()
        deadline = deadline_in(limits.seconds * max(1.0, len(boards) / threads))
        turn_end = deadline_in(limits.turn_seconds)
        left = [len(boards)]  # the index of the first unfinished board of each unfinished part

        def fill(start: int, end: int) -> None:
            if start and clock() >= turn_end:
                left.append(start)
                return
            of = slice(start, end)
            budget = Budget(
                min(deadline, deadline_in(limits.seconds * (end - start))),
                limits.stop,
                threads if len(boards) == 1 else 1,
                turn_end,
            )
            part = Rows(rows.values[of], rows.depths[of], rows.positions[of])
            began = time.thread_time()
            moves[of], done = self._find_moves(boards[of], part, budget, limits.deeper)
            if done < end - start:
                left.append(start + done)
            self._board_seconds += 0.1 * ((time.thread_time() - began) / done - self._board_seconds)

        most = _PART_BOARDS if turn_end != NEVER else len(boards)
        spread_parts(fill, len(boards), threads, len(boards) * self._board_seconds, most)
        done = slice(min(left))
        rows.depths[moves < 0] = 0
        return SearchResult(
            moves[done], rows.values[done].astype(np.float32), rows.depths[done], rows.positions[done]
        )

    def _find_moves(
        self, boards: NDArray[np.uint64], rows: Rows, budget: Budget, deeper: bool
    ) -> tuple[NDArray[np.int8], int]:
        """Look up moves in the endgame tables. Search all other boards and fill their rows.

        Returns:
            The moves, and the number of boards before the first unfinished one.
        """
        moves = endgame_moves(boards, self.tables) if self.tables else np.full(len(boards), -1, np.int8)
        others = np.flatnonzero(moves < 0)
        if not len(others):
            return moves, len(boards)
        if len(others) == len(boards):
            done = self._deepen(boards, rows, budget, deeper)
            return best_moves(rows.values), done
        found = self._empty_rows(len(others))
        done = self._deepen(boards[others], found, budget, deeper)
        rows.values[others], rows.depths[others], rows.positions[others] = found
        moves[others] = best_moves(found.values)
        return moves, int(others[done]) if done < len(others) else len(boards)

    def values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Return the values `[N, 4]` of the moves on 64-bit boards `[N]`, at the depth of the options."""
        rows, depths = self._empty_rows(len(boards)), self.depths(boards)

        def fill(start: int, end: int) -> None:
            of = slice(start, end)
            part = Rows(rows.values[of], rows.depths[of], rows.positions[of])
            self._search(boards[of], depths[of], part, Budget())

        spread_parts(fill, len(boards), self._threads())
        return rows.values.astype(np.float64)

    def _threads(self) -> int:
        return self._cores or numba_threads()

    def _empty_rows(self, count: int) -> Rows:
        values = np.full((count, 4), -np.inf, self.value_type)
        return Rows(values, np.zeros(count, np.uint8), np.zeros(count, np.int64))

    def _deepen(self, boards: NDArray[np.uint64], rows: Rows, budget: Budget, deeper: bool) -> int:
        """Search the boards as deep as time allows and fill their rows.

        Returns the number of boards before the first unfinished one.
        """
        wanted = self.depths(boards)
        if deeper:
            wanted = np.full_like(wanted, self.most_depth)
        for depths, limits in self._passes(wanted, budget, deeper):
            ending = self._search(boards, depths, rows, limits)
            if ending == TURN_OVER:
                return int(np.argmax(rows.depths < depths))
            if ending == STOPPED and limits.deadline == budget.deadline:
                break
        return len(boards)

    @staticmethod
    def _passes(
        wanted: NDArray[np.uint8], budget: Budget, deeper: bool
    ) -> Iterable[tuple[NDArray[np.uint8], Budget]]:
        """Yield the depths and the budget of each successive search of the boards."""
        if budget.deadline != NEVER:
            yield np.minimum(wanted, 1), budget._replace(deadline=NEVER)
            if not deeper:
                yield wanted, budget._replace(deadline=(int(clock()) + budget.deadline) // 2)
            for depth in range(2, int(wanted.max(initial=0))):
                yield np.minimum(wanted, depth), budget
        yield wanted, budget

    def _search(
        self, boards: NDArray[np.uint64], depths: NDArray[np.uint8], rows: Rows, budget: Budget
    ) -> int:
        """Search all moves of boards; from `split_depth` on, several threads share the moves of one board."""
        if budget.threads == 1 or depths[0] < self.split_depth:
            return self.search(boards, depths, EVERY_MOVE, rows, budget)
        split = [self._empty_rows(1) for _ in EVERY_MOVE]
        endings = [RUNNING] * len(EVERY_MOVE)

        def fill(move: int) -> None:
            endings[move] = self.search(boards, depths, EVERY_MOVE[move : move + 1], split[move], budget)

        parallel_for_each(fill, len(EVERY_MOVE), budget.threads)
        rows.positions[0] += sum(int(each.positions[0]) for each in split)
        ending = max(endings)
        if ending == RUNNING:
            rows.values[0] = [each.values[0, move] for move, each in enumerate(split)]
            rows.depths[0] = depths[0]
        return ending


@dataclass(frozen=True)
class DeepeningPlayer(ValuePlayer):
    """A player whose moves and values come from a `DeepeningSearch`."""

    @property
    @abstractmethod
    def _search(self) -> DeepeningSearch: ...

    @property
    def endgames(self) -> tuple[EndgameTable, ...]:
        """The endgame tables, in the order of lookup."""
        return self._search.tables

    def _choose(self, boards: NDArray[np.uint64]) -> NDArray[np.int8]:
        return self._search.find_packed(boards, Limits()).moves if self.endgames else super()._choose(boards)

    def _values(self, boards: NDArray[np.uint64]) -> NDArray[np.float64]:
        return self._search.values(boards)

    def _decisive_arrays(self) -> Iterable[NDArray[np.generic]]:
        for table in self.endgames:
            yield from table.decisive_arrays()
