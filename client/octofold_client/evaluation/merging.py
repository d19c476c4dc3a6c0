"""Puts the slices of an evaluation together, as if one program had played all games."""

import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from octofold_game.contract.model import Card
from octofold_game.replays import ReplayOrder, write_in_order

from octofold_client.contenders.judges import Judge
from octofold_client.errors import EvaluationError, OtherEvaluation
from octofold_client.evaluation.game_table import GameSummary, GameTable
from octofold_client.evaluation.result import Evaluation, RunFigures, earlier_run
from octofold_client.evaluation.result_folder import Conditions, ResultFolder, differences
from octofold_client.evaluation.slices import Slice, named
from octofold_client.evaluation.tables import report
from octofold_client.provenance import runs_of
from octofold_client.wording import counted


@dataclass(frozen=True)
class _Part:
    """One of the folders."""

    folder: ResultFolder
    conditions: Conditions
    """Without the slice."""
    games: range
    of_games: int
    """Games of the whole evaluation."""
    of: int
    """Slices of the whole evaluation."""
    card: Card | None
    server_version: str | None
    run: RunFigures | None

    @classmethod
    def of_folder(cls, path: Path) -> "_Part":
        folder, conditions = ResultFolder.of_evaluation(path)
        if not folder.result.exists():
            raise EvaluationError(f"{path} is not finished: it has no result; run its command again")
        part = conditions.slice
        if part is None:
            last = max((episode.game for episode in folder.finished()), default=0)
            part = Slice(1, 1, conditions.games or last + 1)
        return cls(
            folder,
            replace(conditions, slice=None, games=part.games),
            part.range,
            part.games,
            part.of,
            *earlier_run(folder),
        )

    def __str__(self) -> str:
        return str(self.folder.path)


def merge(
    folders: Sequence[Path],
    to: Path,
    *,
    check: Callable[[], None] = lambda: None,
    on_read: Callable[[int], None] = lambda _: None,
    values: Judge | None = None,
) -> Evaluation:
    """Write the evaluation whose slices are in `folders`; the folder `to` appears when it is complete.

    The games, the figures and the report are those of a single evaluation of all games. Only `run` differs:
    it is the sum over the slices, and the record of the runs names those of every slice.

    Args:
        folders: result folders of all slices, in any order.
        to: the new folder; it must be missing or empty.
        check: called often; an exception from it ends the work, and `to` is as it was before.
        on_read: called with a number of games whenever some have been read.
        values: whose values take the luck out of the average.

    Raises:
        OtherEvaluation: the folders contain games of different conditions.
        EvaluationError: a folder is not the result of a finished evaluation, games are missing or in two
            folders, or `to` is not empty.
        ReplayError: a replay file is damaged.
        OSError: a file cannot be read or written.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise EvaluationError(f"{to} is not empty; choose another folder for the merged games")
    parts = sorted((_Part.of_folder(path) for path in folders), key=lambda part: part.games.start)
    _check_together(parts)
    orders, games = [], GameTable()
    for part in parts:
        order = ReplayOrder()
        for episode in part.folder.finished():
            check()
            games.append(GameSummary.of(episode))
            order.add(episode)
            on_read(1)
        _check_complete(part, games[part.games.start :])
        orders.append((part.folder.replays, order))
    games = games.in_order()
    evaluation = Evaluation(
        conditions=parts[0].conditions,
        games=games,
        completeness=parts[0].conditions.completeness(games.column("game").tolist()),
        card=next((part.card for part in parts if part.card is not None), None),
        server_version=_versions(parts),
        run=RunFigures.sum([part.run for part in parts if part.run is not None]),
    )
    with _new_folder(to) as folder:
        folder.write_conditions(evaluation.conditions)
        write_in_order(orders, folder.replays, check)
        evaluation = evaluation.with_luck(folder, values, lambda _: check())
        evaluation.write(folder, report(evaluation))
        for part in parts:
            for run in runs_of(part.folder.path):
                run.append(folder.path)
    return evaluation


def _check_together(parts: Sequence[_Part]) -> None:
    """Raise `EvaluationError` unless the parts are all slices of one evaluation."""
    first = parts[0]
    if len(parts) > 1 and first.conditions.anonymous:
        raise OtherEvaluation(
            f"{first} contains games of a player named {first.conditions.player}, but the other folders may "
            "contain games of another one: give the player an attribute sha256 that identifies it"
        )
    for part in parts:
        if part.conditions != first.conditions:
            raise OtherEvaluation(
                f"{part} and {first} are not of one evaluation: "
                + differences(part.conditions, first.conditions)
            )
        if part.of_games != first.of_games:
            raise OtherEvaluation(
                f"{part} and {first} are not of one evaluation: {part} is a part of "
                f"{counted(part.of_games, 'game')}, not of {first.of_games:,}"
            )
    for before, after in pairwise(parts):
        if both := range(after.games.start, min(before.games.stop, after.games.stop)):
            raise EvaluationError(f"{before} and {after} both contain {named([both])}")
    ends = [0, *(part.games.stop for part in parts)]
    starts = [*(part.games.start for part in parts), first.of_games]
    if holes := [range(end, start) for end, start in zip(ends, starts, strict=True) if end < start]:
        raise EvaluationError(f"no folder contains {named(holes)}{_slices(holes, parts)}")


def _slices(holes: Sequence[range], parts: Sequence[_Part]) -> str:
    """The slices that are missing, if all were cut in the same way."""
    if len({part.of for part in parts}) > 1:
        return ""
    of, games = parts[0].of, parts[0].of_games
    missing = [
        f"{number}/{of}"
        for number in range(1, of + 1)
        if any(Slice(number, of, games).range[0] in hole for hole in holes)
    ]
    told = ", ".join(missing[:5]) + (f" and {len(missing) - 5:,} more" if len(missing) > 5 else "")
    return f" (slice{'' if len(missing) == 1 else 's'} {told} of {counted(games, 'game')})"


def _check_complete(part: _Part, games: GameTable) -> None:
    """Raise `EvaluationError` unless these are exactly the games of the part."""
    found = np.sort(games.column("game").tolist())
    if strange := [game for game in found[[0, -1]].tolist() if game not in part.games] if len(found) else []:
        raise EvaluationError(
            f"{part} contains game {strange[0]}, which is not one of its slice ({named([part.games])})"
        )
    if len(found) < len(part.games):
        edges = np.array([part.games.start - 1, *found.tolist(), part.games.stop])
        gaps = np.flatnonzero(np.diff(edges) > 1)
        missing = [range(edges[gap] + 1, edges[gap + 1]) for gap in gaps.tolist()]
        raise EvaluationError(f"{part} is not finished: it lacks {named(missing)}; run its command again")


def _versions(parts: Sequence[_Part]) -> str | None:
    versions = {version for part in parts for version in (part.server_version or "").split(", ") if version}
    return ", ".join(sorted(versions)) or None


@contextmanager
def _new_folder(path: Path) -> Iterator[ResultFolder]:
    """Yield a temporary folder, which takes the place of `path` when the block ends."""
    path = path.resolve()  # where a link leads to, and a name for "."
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    partial.mkdir()
    try:
        yield ResultFolder(partial)
        partial.replace(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
