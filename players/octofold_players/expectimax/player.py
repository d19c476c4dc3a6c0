"""Expectimax with a heuristic, as in nneonneo's 2048-ai, on 64-bit boards.

The search (`search.py`) cuts off unlikely branches and looks up afterstates that it has already searched
(https://github.com/nneonneo/2048-ai, described in https://stackoverflow.com/a/22498940). Only the heuristic
value of the last afterstates counts, not the rewards.

There are two heuristics. Both are sums over rows and columns. Petr Moravek's heuristic rewards empty cells
and possible merges in a line. It penalizes tiles that are out of order, especially large ones, and large
tiles in general. He found the weights with CMA-ES. nneonneo's earlier heuristic rewards empty cells, and
lines whose largest tile is at an end. https://stackoverflow.com/a/22498940 describes both. Moravek's is in
2048.cpp of https://github.com/nneonneo/2048-ai, and nneonneo's in commit a3f15f3 of that file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from octofold_game.compiling import njit
from octofold_game.contract.searches import Option

from octofold_players.compiled.line_tables import Lines, line_table, without_gaps
from octofold_players.compiled.search_limits import TABLE_FULL, new_state
from octofold_players.compiled.transpositions import Transpositions
from octofold_players.deepening import Budget, DeepeningPlayer, DeepeningSearch, Rows
from octofold_players.expectimax.search import Entry, search_boards
from octofold_players.local_player import OptionError, card_options, check_option

_U = np.uint64
_LEAST_DEPTH, _MOST_DEPTH = 4, 12
_DEPTH_BELOW_TILES = 1
"""Difference between the number of distinct tiles and the default depth. nneonneo's program subtracts two,
because it does not count the first move."""
_LARGEST_WEIGHT = 1e7
LARGEST_POWER = 8.0
"""Maximum of the powers in `Weights`."""
_LEAST_ENTRIES, _MOST_ENTRIES = 1 << 12, 1 << 24
"""Minimum and maximum number of entries of a transposition table, which take 16 bytes each. A search to the
default depth fills about 300,000."""


@dataclass(frozen=True)
class HeuristicExpectimaxPlayer(DeepeningPlayer):
    """A player that chooses the move with the largest expected heuristic value after `depth` moves."""

    kind: ClassVar[str] = "expectimax"
    value_unit: ClassVar[str] = "heuristic points"
    looks_ahead: ClassVar[bool] = True
    revision: ClassVar[int] = 2

    depth: int | None = None
    """Number of moves to look ahead, 1 to 12. None: the number of distinct tiles minus 1, but at least 4."""
    cutoff: float = 0.0001
    """Minimum probability of a branch that is searched; 0 searches all branches."""
    heuristic: str = "moravek"
    """Heuristic that values the last afterstates of a search: `moravek` or `nneonneo`."""
    weights: str = ""
    """Seven numbers joined by `+`, in the order of `Weights`, that replace the heuristic's weights.
    `octofold-papers tune` finds good weights."""

    def __post_init__(self) -> None:
        """Check the options. Raises `OptionError` if one is out of range."""
        if self.depth is not None:
            check_option("depth", self.depth, 1, _MOST_DEPTH)
        check_option("cutoff", self.cutoff, 0, 1)
        if self.heuristic not in HEURISTICS:
            raise OptionError(f"heuristic must be one of {', '.join(HEURISTICS)}, got {self.heuristic!r}")
        weights_of(self.heuristic, self.weights)

    @classmethod
    def served(
        cls, options: Mapping[str, Option], files: Mapping[str, NDArray[np.uint8]], cores: int
    ) -> ExpectimaxSearch:
        """Implement `octofold_game.contract.searches.ServedKind.served`."""
        return ExpectimaxSearch(cls(**card_options(cls, options, files)), cores)

    @cached_property
    def _search(self) -> ExpectimaxSearch:
        return ExpectimaxSearch(self)

    def _decisive_arrays(self) -> Iterable[NDArray[np.generic]]:
        return ()  # because the search reads no files


class ExpectimaxSearch(DeepeningSearch):
    """The search of a `HeuristicExpectimaxPlayer`. If `cores` is None, it uses numba's number of threads."""

    value_unit = HeuristicExpectimaxPlayer.value_unit
    looks_ahead = HeuristicExpectimaxPlayer.looks_ahead
    most_depth = _MOST_DEPTH
    split_depth = 5

    def __init__(self, player: HeuristicExpectimaxPlayer, cores: int | None = None) -> None:
        super().__init__(player.depth, cores)
        self._cutoff = np.float32(player.cutoff)
        self._lines = worth_of_lines(player.heuristic, player.weights)

    def depths(self, boards: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """Implement `DeepeningSearch.depths`."""
        if self._depth is not None:
            return super().depths(boards)
        return np.array([depth_by_tiles(board) for board in boards], np.uint8)

    def search(
        self,
        boards: NDArray[np.uint64],
        depths: NDArray[np.uint8],
        moves: NDArray[np.int64],
        rows: Rows,
        budget: Budget,
    ) -> int:
        """Implement `DeepeningSearch.search`."""
        while True:
            first = _cache.reserve_numbers(4 * len(boards))
            state = new_state(budget.deadline, budget.stop, budget.turn_end)
            state["grows"] = len(_cache.table) < _MOST_ENTRIES
            search_boards(boards, depths, moves, self._cutoff, self._lines, _cache.table, first, *rows, state)
            if state["ended"] != TABLE_FULL:
                return int(state["ended"][0])
            _cache.renew(2 * len(_cache.table))


_cache = Transpositions(_LEAST_ENTRIES, Entry)
"""The transposition table of each thread. It grows to the size that the thread's searches need."""


@njit(cache=True, nogil=True)
def depth_by_tiles(board):
    """Return the depth to which nneonneo's program searches `board`."""
    seen = np.int64(0)
    for cell in range(16):
        seen |= 1 << np.int64(board >> _U(4 * cell) & _U(0xF))
    distinct = np.int64(0)
    for exponent in range(1, 16):
        distinct += seen >> exponent & 1
    return max(_LEAST_DEPTH, distinct - _DEPTH_BELOW_TILES)


class Weights(NamedTuple):
    """The weights of a heuristic, in the order of the option `weights`."""

    empty: float
    """Weight of an empty cell."""
    merges: float
    """Weight of a tile next to an equal one."""
    disorder: float
    """Penalty for tiles out of order. The rises of `exponent ** disorder_power` along a line are added
    up, and so are the falls. This is the weight of the smaller sum."""
    disorder_power: float
    sum: float
    """Penalty for large tiles: weight of the sum of `exponent ** sum_power`."""
    sum_power: float
    edge: float
    """Weight of a line whose largest tile is at one of its ends."""


class _Heuristic(NamedTuple):
    alive: float
    """Constant that every line adds to the value of a board. A lost board has the value 0."""
    weights: Weights


HEURISTICS = {
    "moravek": _Heuristic(200_000.0, Weights(270.0, 700.0, 47.0, 4.0, 11.0, 3.5, 0.0)),
    "nneonneo": _Heuristic(100_000.0 / 8, Weights(10_000.0, 0.0, 0.0, 4.0, 0.0, 3.5, 20_000.0)),
}


def weights_of(heuristic: str, text: str) -> Weights:
    """Parse the option `weights`; an empty text gives the heuristic's own weights.

    Raises:
        OptionError: the text is not seven numbers joined by +, or one is out of range.
    """
    if not text:
        return HEURISTICS[heuristic].weights
    names = Weights._fields
    try:
        weights = Weights(*map(float, text.split("+")))
    except (ValueError, TypeError):
        raise OptionError(
            f"weights must be {len(names)} numbers joined by + ({', '.join(names)}), got {text!r}"
        ) from None
    for name, weight in weights._asdict().items():
        check_option(name, weight, 0, LARGEST_POWER if name.endswith("power") else _LARGEST_WEIGHT)
    return weights


def _merges(lines: Lines) -> NDArray[np.int64]:
    """Return the number of tiles in each line that are next to an equal tile, ignoring empty cells."""
    tiles = without_gaps(lines)
    first, second, third = (tiles[:-1] == tiles[1:]) & (tiles[1:] > 0)
    merging: NDArray[np.int64] = np.sum([first, first | second, second | third, third], axis=0)
    return merging


@lru_cache(8)
def worth_of_lines(heuristic: str, text: str = "") -> NDArray[np.float32]:
    """Return a heuristic's values `[65536]` of all lines; `text` is the option `weights`.

    The first cell of a line is the lowest nibble of its index.
    """
    weights = weights_of(heuristic, text)

    def worth(lines: Lines) -> NDArray[np.float64]:
        steps = np.diff(lines**weights.disorder_power, axis=0)
        disorder = np.minimum(np.maximum(0, -steps).sum(axis=0), np.maximum(0, steps).sum(axis=0))
        powers = np.array([math.pow(exponent, weights.sum_power) for exponent in range(16)])
        first, second, third, fourth = powers[lines]
        at_an_end = lines.argmax(axis=0) % 3 == 0
        of_lines: NDArray[np.float64] = (
            HEURISTICS[heuristic].alive
            + weights.empty * (lines == 0).sum(axis=0)
            + weights.merges * _merges(lines)
            - weights.disorder * disorder
            - weights.sum * (first + second + third + fourth)
            + weights.edge * at_an_end
        )
        return of_lines

    return line_table(worth, np.float32).astype(np.float32)
