"""Computes where games are lost: figures of their last positions, by largest tile and by moves left.

The cost of a move is the judge's value of its own choice minus its value of the move, but at least 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import Interval
from octofold_game.episodes import Episode
from octofold_game.rules import LARGEST_EXPONENT, legal_moves
from octofold_game.system.files import read_regular
from octofold_game.trajectories import Positions

from octofold_client.contenders.judges import Judge, Opinion
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.intervals import average_interval, clustered_share_interval

FILE = "analysis.json"
SCHEMA = 1
"""Version of the JSON format; it increases when a field is removed or changes its meaning."""
MIN_MOVES_APART = 20
"""Minimum distance, in moves, between the costly moves of one game that an analysis lists."""
COSTLIEST_KEPT = 100
"""Maximum number of costly moves that an analysis lists."""
QUARTERS = ("0 to 25%", "25 to 50%", "50 to 75%", "75 to 100%", "100% or more")
_MAX_BYTES = 16 << 20
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


@dataclass(frozen=True)
class Ending:
    """The end of one game: its score and tiles."""

    game: int
    score: int
    largest_tile: int
    quarter: int
    """Index of the range in `QUARTERS` that contains the sum of the other tiles over the largest tile."""

    @classmethod
    def of(cls, episode: Episode) -> "Ending":
        """Return the ending of a finished game."""
        tiles = np.where(episode.final_board > 0, 1 << episode.final_board.astype(np.int64), 0)
        largest = episode.largest_tile
        quarter = min(4, 4 * (int(tiles.sum()) - largest) // largest)
        return cls(episode.game, episode.score, largest, quarter)


@dataclass(frozen=True)
class Verdicts:
    """A judge's verdicts on P positions. Without a verdict, choice is -1, and cost and values are NaN."""

    choices: NDArray[np.int8]
    """`[P]`: the moves that the judge would make."""
    costs: NDArray[np.float64]
    """`[P]`: the cost of the move made in each position; 0 if the judge would make the same move."""
    values: NDArray[np.float64]
    """`[P, 4]`: the values of the four moves."""

    @classmethod
    def none(cls, positions: int) -> "Verdicts":
        """Return empty verdicts for this number of positions."""
        return cls(
            np.full(positions, -1, np.int8), np.full(positions, np.nan), np.full((positions, 4), np.nan)
        )

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Whether each position was judged, `[P]`."""
        return self.choices >= 0

    def add(self, rows: NDArray[np.intp], made: NDArray[np.uint8], opinion: Opinion) -> None:
        """Add the judge's opinion of the positions `rows`, in which the player made the moves `made`."""
        index = np.arange(len(rows))
        best = opinion.values[index, opinion.choices]
        self.choices[rows], self.values[rows] = opinion.choices, opinion.values
        # A judge that votes may not choose the move with the largest value; a negative cost counts as 0.
        self.costs[rows] = np.maximum(0.0, best - opinion.values[index, made])


@dataclass(frozen=True)
class Group:
    """Figures of a group of positions."""

    label: str
    positions: int
    empty_cells: float
    """Average number of empty cells."""
    choices: float
    """Average number of legal moves."""
    judged: int
    agreement: float | None
    """Share of the judged positions in which the judge would make the same move; None if none was judged."""
    agreement_interval: Interval | None
    """95% interval of the agreement, with the positions clustered by game; None if `agreement` is None."""
    cost: float | None
    """Average cost of a move; None if no position was judged."""
    cost_share: float | None
    """The cost of this group as a share of the total cost; None if nothing was judged or the total is 0."""


@dataclass(frozen=True)
class CostlyMove:
    """A move that the judge would not have made."""

    game: int
    move: int
    """Number of moves before this move."""
    board: list[int]
    made: int
    better: int
    """The move that the judge would make."""
    values: list[float | None]
    """The judge's values of the four moves; None for an illegal move."""
    cost: float


@dataclass(frozen=True)
class EndedAt:
    """The games that ended with a certain largest tile."""

    largest_tile: _Count
    games: _Count
    quarters: list[_Count]
    """Number of these games in each range of `QUARTERS`."""


@dataclass(frozen=True)
class GameCost:
    """The total cost of a game's last moves, averaged over the games whose last moves were all judged."""

    average: float
    interval: Interval | None


@dataclass(frozen=True)
class JudgeName:
    """Name and unit of the judge of an analysis."""

    name: str
    unit: str
    """Unit of the judge's values."""
    sha256: str | None


@dataclass(frozen=True)
class Analysis:
    """The figures of the last positions of some games. docs/results.md describes the file."""

    schema: int
    last_moves: int
    judge: JudgeName | None
    games: int
    positions: int
    judged: int
    average_score: float
    cost_of_a_game: GameCost | None
    all: Group
    by_stage: list[Group]
    """Groups by the largest tile on the board, in ascending order."""
    by_distance: list[Group]
    """Groups by the number of moves left in the game, in ranges that double: 1, 2 to 3, 4 to 7 and so on."""
    endings: list[EndedAt]
    """The games by their largest tile, in ascending order."""
    costliest: list[CostlyMove]
    """The costliest moves in descending order of cost, without moves that cost nothing or are close to a
    costlier move of the game."""

    @classmethod
    def of(
        cls,
        endings: Sequence[Ending],
        positions: Positions,
        verdicts: Verdicts,
        last: int,
        judge: Judge | None,
    ) -> "Analysis":
        """Compute the figures of the last `last` positions of each game from the verdicts of `judge`."""
        largest = positions.boards.max(axis=1)
        return cls(
            schema=SCHEMA,
            last_moves=last,
            judge=None if judge is None else JudgeName(judge.name, judge.unit, judge.sha256),
            games=len(endings),
            positions=len(positions),
            judged=int(np.count_nonzero(verdicts.judged)),
            average_score=fmean(ending.score for ending in endings),
            cost_of_a_game=_cost_of_a_game(positions, verdicts),
            all=_figures("all", np.ones(len(positions), bool), positions, verdicts),
            by_stage=[
                _figures(str(1 << exponent), largest == exponent, positions, verdicts)
                for exponent in np.unique(largest).tolist()
            ],
            by_distance=_by_distance(positions, verdicts),
            endings=_endings_by_tile(endings),
            costliest=_costliest(positions, verdicts),
        )


def _endings_by_tile(endings: Sequence[Ending]) -> list[EndedAt]:
    counts: dict[int, list[int]] = {}
    for ending in endings:
        counts.setdefault(ending.largest_tile, [0] * len(QUARTERS))[ending.quarter] += 1
    return [EndedAt(tile, sum(quarters), quarters) for tile, quarters in sorted(counts.items())]


def _by_distance(positions: Positions, verdicts: Verdicts) -> list[Group]:
    groups, first = [], 1
    most = int(positions.left.max())
    while first <= most:
        last = min(2 * first - 1, most)
        label = f"{first}" if first == last else f"{first} to {last}"
        rows = (positions.left >= first) & (positions.left <= last)
        groups.append(_figures(label, rows, positions, verdicts))
        first = last + 1
    return groups


def _cost_of_a_game(positions: Positions, verdicts: Verdicts) -> GameCost | None:
    """Return the average cost of a game, each game being one observation; None if no game is fully judged."""
    indices, rows = np.unique(positions.games, return_inverse=True)
    judged = verdicts.judged
    complete = np.bincount(rows, ~judged, len(indices)) == 0
    if not complete.any():
        return None
    costs = np.bincount(rows, np.where(judged, verdicts.costs, 0.0), len(indices))[complete]
    return GameCost(float(costs.mean()), average_interval(costs))


def _costliest(positions: Positions, verdicts: Verdicts) -> list[CostlyMove]:
    costs = np.where(verdicts.judged, verdicts.costs, 0.0)
    moves: list[CostlyMove] = []
    by_game: dict[int, list[int]] = {}
    for row in np.argsort(-costs, kind="stable")[: np.count_nonzero(costs)].tolist():
        if len(moves) == COSTLIEST_KEPT:
            break
        move, game = int(positions.numbers[row]), int(positions.games[row])
        others = by_game.setdefault(game, [])
        if any(abs(move - other) < MIN_MOVES_APART for other in others):
            continue
        others.append(move)
        legal = legal_moves(positions.boards[row : row + 1])[0]
        values = zip(verdicts.values[row].tolist(), legal.tolist(), strict=True)
        moves.append(
            CostlyMove(
                game=game,
                move=move,
                board=positions.boards[row].tolist(),
                made=int(positions.made[row]),
                better=int(verdicts.choices[row]),
                values=[value if possible else None for value, possible in values],
                cost=float(verdicts.costs[row]),
            )
        )
    return moves


def _figures(label: str, rows: NDArray[np.bool_], positions: Positions, verdicts: Verdicts) -> Group:
    boards, judged = positions.boards[rows], verdicts.judged[rows]
    costs = verdicts.costs[rows][judged]
    same = (verdicts.choices[rows] == positions.made[rows])[judged]
    total = float(np.nansum(verdicts.costs))
    return Group(
        label=label,
        positions=len(boards),
        empty_cells=float((boards == 0).sum(axis=1).mean()),
        choices=float(legal_moves(boards).sum(axis=1).mean()),
        judged=len(costs),
        agreement=float(same.mean()) if len(costs) else None,
        agreement_interval=_share_interval(positions.games[rows][judged], same) if len(costs) else None,
        cost=float(costs.mean()) if len(costs) else None,
        cost_share=float(costs.sum()) / total if len(costs) and total else None,
    )


def _share_interval(games: NDArray[np.int64], same: NDArray[np.bool_]) -> Interval:
    """Return the interval of the share of True elements in `same` `[P]`; `games` `[P]` are the clusters."""
    _, rows = np.unique(games, return_inverse=True)
    return clustered_share_interval(np.bincount(rows, same), np.bincount(rows))


def judge_positions(
    judge: Judge,
    positions: Positions,
    verdicts: Verdicts,
    on_judged: Callable[[int], None] = lambda _: None,
    before_each: Callable[[], None] = lambda: None,
) -> None:
    """Judge all positions without tiles that are too large for the judge; add the results to `verdicts`.

    An exception from a callback ends the work and keeps the verdicts so far.

    Args:
        judge: the judge.
        positions: positions to judge.
        verdicts: receives the results.
        on_judged: called after each batch with its number of positions.
        before_each: called before each batch.
    """
    rows = np.flatnonzero(positions.boards.max(axis=1) <= judge.largest_exponent)
    for start in range(0, len(rows), judge.boards_at_once):
        before_each()
        some = rows[start : start + judge.boards_at_once]
        verdicts.add(some, positions.made[some], judge.ask(positions.boards[some]))
        on_judged(len(some))


def _check_analysis(kept: Analysis) -> Analysis:
    """Return an analysis from a file, or raise `ValueError` if its schema or a number is not allowed."""
    if kept.schema != SCHEMA:
        raise ValueError(f"it has schema {kept.schema}, but this program reads schema {SCHEMA}")
    if any(len(row.quarters) != len(QUARTERS) for row in kept.endings):
        raise ValueError(f"`quarters` of endings must be {len(QUARTERS)} numbers")
    for move in kept.costliest:
        if len(move.board) != 16 or not 0 <= min(move.board) <= max(move.board) <= LARGEST_EXPONENT:
            raise ValueError(f"`board` of a costly move must be 16 exponents from 0 to {LARGEST_EXPONENT}")
        if not 0 <= min(move.made, move.better) <= max(move.made, move.better) <= 3:
            raise ValueError("`made` and `better` of a costly move must be from 0 to 3")
    return kept


def read_analysis(folder: Path) -> Analysis | None:
    """Return the analysis in a result folder; None if the folder has no analysis.

    Raises:
        EvaluationError: the file is damaged, or its version is unknown.
        OSError: the file cannot be read, or is too large.
    """
    file = folder / FILE
    try:
        return _check_analysis(msgspec.json.decode(read_regular(file, _MAX_BYTES), type=Analysis))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"{file} is damaged, or from another version of Octofold: {error}") from None
