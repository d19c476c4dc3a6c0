"""Merges the slices of an evaluation, as if one program had played all games."""

import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from octofold_game.contract.model import Card
from octofold_game.replays import ReplayOrder, write_in_order

from octofold_client.contenders.judges import Judge
from octofold_client.errors import EvaluationError, OtherEvaluation
from octofold_client.evaluation.report import report
from octofold_client.evaluation.result import Evaluation, RunFigures, earlier_run
from octofold_client.evaluation.result_folder import Conditions, ResultFolder, differences
from octofold_client.evaluation.slices import Slice
from octofold_client.evaluation.summary import GameSummary, in_order
from octofold_client.provenance import runs_of
from octofold_client.wording import counted, listed

_MOST_NAMED = 5
"""Maximum number of missing slices that a message names."""


@dataclass(frozen=True)
class _Part:
    """A slice to merge: its folder and the contents of its files."""

    folder: ResultFolder
    conditions: Conditions
    """The conditions of the whole evaluation, without the slice."""
    slice: Slice
    card: Card | None
    server_version: str | None
    run: RunFigures | None

    @classmethod
    def of_folder(cls, path: Path) -> "_Part":
        folder, conditions = ResultFolder.of_evaluation(path)
        if conditions.slice is None:
            raise EvaluationError(f"{path} is not a slice of an evaluation")
        if not folder.result.exists():
            raise EvaluationError(f"{path} is not finished: it has no result; run its command again")
        whole = replace(conditions, slice=None, games=conditions.slice.games)
        return cls(folder, whole, conditions.slice, *earlier_run(folder))

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
    """Merge the slices in `folders` into the folder `to`, which appears when it is complete.

    Games and figures equal those of a single evaluation of all games, except `run`, which is the sum over the
    slices. `runs.jsonl` lists the runs of all slices.

    Args:
        folders: result folders of all slices, in any order.
        to: the new folder; it must be missing or empty.
        check: called often; an exception from it ends the work and leaves `to` unchanged.
        on_read: called with the number of games read since the last call.
        values: the value function that adjusts the average for luck; None for no adjustment.

    Raises:
        OtherEvaluation: the folders contain slices of different evaluations, or perhaps of different players.
        EvaluationError: a folder has no finished slice, a game is missing or doubled, or `to` is not empty.
        ReplayError: a replay file is damaged.
        OSError: a file cannot be read or written.
    """
    if not folders:
        raise EvaluationError("merging needs at least one result folder")
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise EvaluationError(f"{to} is not an empty folder; choose another one for the merged games")
    parts = sorted((_Part.of_folder(path) for path in folders), key=lambda part: part.slice.number)
    _check_same_evaluation(parts)
    orders, games = [], list[GameSummary]()
    for part in parts:
        order, own = ReplayOrder(), list[GameSummary]()
        for episode in part.folder.finished():
            check()
            own.append(GameSummary.of(episode))
            order.add(episode)
            on_read(1)
        _check_complete(part, own)
        games += own
        orders.append((part.folder.replays, order))
    games = in_order(games)
    evaluation = Evaluation(
        conditions=parts[0].conditions,
        games=games,
        completeness=parts[0].conditions.completeness([each.game for each in games]),
        card=next((part.card for part in parts if part.card is not None), None),
        server_version=_server_versions(parts),
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


def _check_same_evaluation(parts: Sequence[_Part]) -> None:
    """Raise `EvaluationError` unless the parts are all slices of one evaluation, each of them once."""
    first = parts[0]
    if len(parts) > 1 and first.conditions.anonymous:
        raise OtherEvaluation(
            f"{first} and the other folders contain games of a player named {first.conditions.player}, but "
            "nothing shows that it is the same player: give it an attribute sha256, and play the slices again"
        )
    for part in parts:
        if part.conditions != first.conditions:
            raise OtherEvaluation(
                f"{part} and {first} belong to different evaluations: "
                + differences(part.conditions, first.conditions)
            )
        if (part.slice.of, part.slice.games) != (first.slice.of, first.slice.games):
            raise OtherEvaluation(
                f"{part} and {first} belong to different evaluations: slices {part.slice} and {first.slice}"
            )
    for before, after in pairwise(parts):
        if before.slice == after.slice:
            raise EvaluationError(f"{before} and {after} both contain slice {before.slice}")
    missing = {*range(1, first.slice.of + 1)} - {part.slice.number for part in parts}
    if missing:
        told = listed(map(str, sorted(missing)[:_MOST_NAMED]))
        more = f" and {len(missing) - _MOST_NAMED:,} more" if len(missing) > _MOST_NAMED else ""
        one = len(missing) == 1
        subject, verb, folders = ("slice", "is", "its folder") if one else ("slices", "are", "their folders")
        raise EvaluationError(f"{subject} {told}{more} of {first.slice.of} {verb} missing: add {folders}")


def _check_complete(part: _Part, games: Sequence[GameSummary]) -> None:
    """Raise `EvaluationError` unless `games` are exactly the games of the slice."""
    if strange := [each.game for each in games if each.game not in part.slice.range]:
        raise EvaluationError(f"{part} contains game {strange[0]}, which is not in slice {part.slice}")
    if missing := len(part.slice.range) - len(games):
        raise EvaluationError(
            f"{part} is not finished: it lacks {counted(missing, 'game')}; run its command again"
        )


def _server_versions(parts: Sequence[_Part]) -> str | None:
    versions = {version for part in parts for version in (part.server_version or "").split(", ") if version}
    return ", ".join(sorted(versions)) or None


@contextmanager
def _new_folder(path: Path) -> Iterator[ResultFolder]:
    """Yield a temporary folder, which is renamed to `path` at the end or deleted after an error."""
    path = path.resolve()  # the target of a link; the name of the current folder instead of "."
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    partial.mkdir()
    try:
        yield ResultFolder(partial)
        partial.replace(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
