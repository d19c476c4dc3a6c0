"""Evaluates one player on the games of one seed: plays, keeps each finished game and summarizes them."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Protocol, overload

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episode
from octofold_game.rules import LARGEST_EXPONENT

from octofold_client.contenders.judges import Judge
from octofold_client.contenders.local_players import Contender
from octofold_client.errors import OctofoldError
from octofold_client.evaluation.game_table import GameSummary, GameTable
from octofold_client.evaluation.lockstep import PATIENCE_SECONDS, PendingMoves, PlayedBatch, play
from octofold_client.evaluation.result import Evaluation, RunFigures
from octofold_client.evaluation.result_folder import Conditions, KeptGames, ResultFolder
from octofold_client.evaluation.slices import Slice
from octofold_client.evaluation.tables import report
from octofold_client.wording import counted

SAVE_SECONDS = 5.0
"""How often running games are saved: whatever kills the program, no more is lost."""
_SAVING_SHARE = 0.05
"""Share of the time that saving may take."""


class ProgressObserver(Protocol):
    """Observes the progress of an evaluation."""

    def resume(self, finished: Sequence[GameSummary], /) -> None:
        """Called once, before the first step, with the games that earlier runs finished."""

    def update(self, step: PlayedBatch, finished: list[GameSummary], /) -> None:
        """Called after each step, with its finished games."""

    def remark(self, text: str, /) -> None:
        """Called with a message for people."""


PlayGames = Callable[
    [Sequence[int | Episode], int, Callable[[list[Episode]], None]], Generator[PlayedBatch, None, None]
]
"""Plays games as `lockstep.play` does, here or on a cluster; its arguments are `games`, `largest_exponent`
and `on_left` of that."""


class MoveSource(Protocol):
    """Supplies moves: a served model or a local player."""

    @property
    def target(self) -> str:
        """The server's address or the player's title, for messages."""

    def server_version(self) -> str | None:
        """Version of the server's program; None if unknown."""

    def ask(self, boards: NDArray[np.uint8], /) -> PendingMoves:
        """Begin to choose moves for boards `[N, 16]`, and return at once."""


class _ToPlay(Sequence[int | Episode]):
    """The games that are left: first those that have begun, then the indices of new ones."""

    def __init__(self, begun: Sequence[Episode], new: NDArray[np.int64]) -> None:
        self._begun = begun
        self._new = new

    def __len__(self) -> int:
        return len(self._begun) + len(self._new)

    @overload
    def __getitem__(self, index: int) -> int | Episode: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int | Episode]: ...
    def __getitem__(self, index: int | slice) -> int | Episode | Sequence[int | Episode]:
        if isinstance(index, slice):
            return [self[each] for each in range(len(self))[index]]
        if index < len(self._begun):
            return self._begun[index]
        return int(self._new[index - len(self._begun)])


def evaluate(
    sources: Sequence[MoveSource],
    contender: Contender,
    folder: ResultFolder,
    *,
    seed: int,
    games: int | Slice,
    parallel: int,
    progress: ProgressObserver,
    while_waiting: Callable[[], None] = lambda: None,
    remote_play: PlayGames | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
    values: Judge | None = None,
) -> Evaluation:
    """Play the games 0 to `games` - 1, or those of a slice, that are not yet in `folder`; write the result.

    A result of more games stays as it is if the folder still keeps them all.
    Games that an earlier run left unfinished continue. The `sources` share the games; each must answer with
    the moves of `contender`. If a source fails, its games continue at the others. At most `parallel` games
    run at a time. `while_waiting` is called at least every 0.2 s; an exception from it ends the evaluation.
    At the end, the values of `values` take the luck out of the average.
    All games are kept whatever ends the evaluation, including the unfinished ones. If
    `remote_play` is given, it plays the games in place of the sources. The evaluation ends when all sources
    have been unavailable for `patience_seconds`.

    Raises:
        OtherEvaluation: the folder contains games of other conditions.
        FolderInUse: another program is playing games into the folder.
        OctofoldError: the last source failed.
        ReplayError: a replay file of the folder is damaged.
        OSError: the folder cannot be written.
    """
    conditions = Conditions.of(contender, seed, games)
    wanted = games.range if isinstance(games, Slice) else range(games)
    largest = contender.largest_exponent or LARGEST_EXPONENT
    programs = sorted({program for source in sources if (program := source.server_version()) is not None})
    with folder.open(conditions) as kept:
        if kept.recovered:
            progress.remark(
                f"{folder.replays}: cut off {counted(kept.recovered, 'byte')} after the last whole game, "
                "which an interrupted program or a power cut has left"
            )
        done = kept.games.within(wanted)
        # If the player can now play with larger tiles, its unfinished games begin again.
        unfinished = [episode for episode in kept.unfinished if episode.largest_exponent == largest]
        begun = {episode.game: episode for episode in unfinished if episode.game in wanted}
        beyond = [episode for episode in unfinished if episode.game not in wanted]
        progress.resume(done)
        new = np.ones(len(wanted), bool)
        new[done.column("game") - wanted.start] = False
        new[[game - wanted.start for game in begun]] = False
        play_games = remote_play or _play_here(
            sources, seed, parallel, progress, while_waiting, patience_seconds
        )

        def save(left: list[Episode]) -> None:
            kept.leave(left + beyond)

        games_left = _ToPlay(list(begun.values()), np.flatnonzero(new) + wanted.start)
        run = _follow(play_games(games_left, largest, save), kept, done, progress, while_waiting, save)
        kept.put_in_order(while_waiting)
    done = done.in_order()
    evaluation = Evaluation(
        conditions=conditions,
        games=done,
        completeness=conditions.completeness(done.column("game").tolist()),
        card=contender.version.card,
        server_version=", ".join(programs) or None,
        run=run,
    )

    def told(games: int) -> None:
        while_waiting()
        progress.remark(f"luck of the tiles: {games:,} of {counted(len(done), 'game')}")

    is_whole = kept.planned.games == conditions.games
    if is_whole:  # before the luck, which may fail or be interrupted
        evaluation.write(folder, report(evaluation))
    evaluation = evaluation.with_luck(folder, values, told)
    if not is_whole:
        progress.remark(
            f"{folder.result} and {folder.report.name} describe the {kept.planned.games:,} games of an "
            "earlier run"
        )
    else:
        evaluation.write(folder, report(evaluation))
    return evaluation


def _play_here(
    sources: Sequence[MoveSource],
    seed: int,
    parallel: int,
    progress: ProgressObserver,
    while_waiting: Callable[[], None],
    patience_seconds: float,
) -> PlayGames:
    """Play games with the moves of the sources."""

    def tell(server: int, error: OctofoldError) -> None:
        progress.remark(f"continuing without {sources[server].target}: {error}")

    return lambda games, largest, on_left: play(
        [source.ask for source in sources],
        seed,
        games,
        parallel,
        largest,
        while_waiting,
        tell,
        on_left,
        patience_seconds=patience_seconds,
    )


def _follow(
    steps: Generator[PlayedBatch, None, None],
    kept: KeptGames,
    done: GameTable,
    progress: ProgressObserver,
    while_waiting: Callable[[], None],
    save: Callable[[list[Episode]], None],
) -> RunFigures:
    """Make all steps, keep the games that finish, add them to `done`, and save the others now and then."""
    started = time.monotonic()
    save_at = started + SAVE_SECONDS
    moves = requests = queue_us = inference_us = 0
    with closing(steps):
        for step in steps:
            finished = kept.append(step.finished) if step.finished else []
            for game in finished:
                done.append(game)
            moves += step.moves
            requests += step.requests
            queue_us += step.queue_us
            inference_us += step.inference_us
            progress.update(step, finished)
            while_waiting()
            if (now := time.monotonic()) >= save_at:
                save(step.unfinished())
                took = time.monotonic() - now
                save_at = now + max(SAVE_SECONDS, took / _SAVING_SHARE)
    return RunFigures(moves, time.monotonic() - started, requests, queue_us, inference_us)
