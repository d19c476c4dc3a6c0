"""Runs an evaluation from connection to result. Commands use `Players`, programs `evaluate` and `merge`."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from octofold_game.episodes import Episode
from octofold_game.player import Player
from octofold_game.rules import LARGEST_EXPONENT

from octofold_client.contenders.judges import Judge
from octofold_client.contenders.local_players import Contender, LocalContender
from octofold_client.errors import EvaluationError, OctofoldError
from octofold_client.evaluation.interrupts import DeferredInterrupts
from octofold_client.evaluation.live_file import LiveFile
from octofold_client.evaluation.merging import merge as merge_slices
from octofold_client.evaluation.playing import RETRY_TIMEOUT_SECONDS, MoveSource, play
from octofold_client.evaluation.report import markdown, report
from octofold_client.evaluation.result import Evaluation, RunFigures
from octofold_client.evaluation.result_folder import Conditions, KeptGames, ResultFolder
from octofold_client.evaluation.server_connections import Connections, sources_of
from octofold_client.evaluation.slices import Slice
from octofold_client.evaluation.summary import GameSummary, Summary, in_order
from octofold_client.extras import require_extra
from octofold_client.provenance import record_run
from octofold_client.rpc.client import Client
from octofold_client.rpc.credentials import PLAINTEXT, Credentials
from octofold_client.wording import counted

if TYPE_CHECKING:  # extras, and rich
    from matplotlib.figure import Figure

    from octofold_client.ray.games import RayCluster
    from octofold_client.terminal.progress import EvaluationProgress


PARALLEL, LOCAL_PARALLEL = 1024, 64
"""Default numbers of games at a time, for a server and for a local player. A server needs large batches. A
local player is slow; with fewer games at a time, its first games finish sooner."""
SAVE_SECONDS = 5.0
"""Minimum time between saves of unfinished games. A killed program loses the moves since the last save."""
_SAVING_SHARE = 0.05
"""Maximum share of the running time spent on saving unfinished games."""


@dataclass(frozen=True, repr=False)
class EvaluationResult:
    """The result of `evaluate` or `merge`. Its `repr` is a Markdown text with a table of the figures."""

    evaluation: Evaluation
    folder: ResultFolder
    """The folder with the replays, the result and the report."""

    @property
    def summary(self) -> Summary:
        """Average, median, best score and the share of games that reached each tile, with 95% intervals."""
        assert self.evaluation.summary is not None  # no game is missing
        return self.evaluation.summary

    @property
    def games(self) -> Sequence[GameSummary]:
        """Score, largest tile and number of moves of each game, in the order of the games' indices."""
        return self.evaluation.games

    def figures(self) -> "dict[str, Figure]":
        """Return the pictures, by their names `score-distribution` and `tiles-reached`.

        Raises:
            EvaluationError: matplotlib is not installed (the extra `plots`).
        """
        with require_extra("plots"):
            from octofold_client.studies.pictures import figures
        return figures([(self.evaluation.conditions.player, self.evaluation)])

    def __repr__(self) -> str:
        return markdown(self.evaluation)

    def _repr_markdown_(self) -> str:
        return repr(self)


@dataclass(frozen=True)
class Games:
    """The games to play, and how to play them."""

    wanted: int | Slice
    """Number of games, from game 0 of the seed on, or a slice of an evaluation."""
    seed: int
    parallel: int | None = None
    """Number of games at a time; None for `PARALLEL`, or `LOCAL_PARALLEL` for a local player."""
    watch: bool = False
    """Whether to write the boards of running games to live.json, for the server's page."""
    retry_timeout_seconds: float = RETRY_TIMEOUT_SECONDS
    """Time for which servers are retried while none answers."""
    values: Judge | None = None
    """The value function that measures luck; None for no luck adjustment."""

    @property
    def range(self) -> range:
        """The indices of the games to play."""
        return self.wanted.range if isinstance(self.wanted, Slice) else range(self.wanted)

    @property
    def number(self) -> int:
        """Number of games to play."""
        return len(self.range)


@dataclass(eq=False)
class Players:
    """Served models and local players that are ready to play; a context manager.

    In the main thread, Ctrl-C and other signals take effect only in `check`, which is called often during
    games and calls. Other threads receive no signals.
    """

    targets: Sequence[str] = ()
    """Addresses of the servers that have the models, as in `Connections`."""
    models: Sequence[tuple[str, str]] = ()
    """Name and version of each model. An empty name is the server's default model, an empty version is the
    newest ready one."""
    credentials: Credentials = PLAINTEXT
    local: Sequence[LocalContender] = ()
    """The local players. They are loaded before the `with` block, because the block delays Ctrl-C."""
    cluster: "RayCluster | None" = None
    """Ray cluster whose tasks play the games; None to play in this process."""
    retry_timeout_seconds: float = 0.0
    """Time for which servers are retried at the start while none answers."""
    contenders: list[Contender] = field(default_factory=list, init=False)
    """The models, then the local players."""
    check: Callable[[], None] = field(init=False)
    _servers: Connections | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        """Connect to the servers and find the models.

        A line on standard error names each server that does not answer.

        Raises:
            EvaluationError: two servers have different model files.
            OctofoldError: no server answers, a server refuses the call, or a model is unknown.
        """
        with ExitStack() as stack:
            in_main_thread = threading.current_thread() is threading.main_thread()
            self.check = stack.enter_context(DeferredInterrupts()).check if in_main_thread else lambda: None
            if self.models:
                servers = Connections(self.targets, self.credentials, self.check, self.retry_timeout_seconds)
                self._servers = stack.enter_context(servers)
                self.contenders += [servers.select(*model) for model in self.models]
            self.contenders += self.local
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)

    @property
    def client(self) -> Client:
        """The client that calls the servers; available only if `models` is not empty."""
        assert self._servers is not None
        return self._servers.client

    def play(
        self, contender: Contender, folder: ResultFolder, games: Games, *, command: bool = True
    ) -> Evaluation:
        """Play the games that are not yet in a folder, write the result, and show the progress.

        Games that an earlier run left unfinished continue. The servers share the games; if a server fails,
        its games continue on the others. All games are kept, including the unfinished ones, even if the
        evaluation fails. The result of a larger evaluation in the folder is not overwritten.

        Args:
            contender: one of `contenders`.
            folder: folder for the games and the result.
            games: the games to play, and how to play them.
            command: whether a command line, not a program, started the evaluation. Messages and `runs.jsonl`
                mention the command line only in this case.

        Raises:
            OtherEvaluation: the folder contains games of another player or seed, or a server has changed the
                files of the model.
            FolderInUse: another program is writing games into the folder.
            OctofoldError: the folder cannot be used, the last server failed, or a move is illegal. If games
                have begun, a line on standard error says which are kept.
            ReplayError: a replay file of the folder is damaged.
            OSError: a file cannot be written.
            KeyboardInterrupt: `check` noticed Ctrl-C; the games are kept as after any other error.
        """
        # Imported here, because programs that only request moves do not need rich.
        from octofold_client.terminal.progress import progress_on

        title = f"{contender.title}: {counted(games.number, 'game')}, seed {games.seed}"
        progress = progress_on(games.number, title)
        try:
            with ExitStack() as stack:
                stack.enter_context(record_run(folder.path, command=command))
                stack.enter_context(progress)
                live = None
                if games.watch:
                    live = LiveFile(folder.path, contender.title, games.seed, games.number)
                    stack.enter_context(live)
                sources = sources_of(contender, self._servers, stack)
                programs = {each for source in sources if (each := source.server_version()) is not None}
                conditions = Conditions.of(contender, games.seed, games.wanted)
                with folder.open_or_resume(conditions) as kept:
                    done, run = self._play_missing(contender, sources, kept, games, progress, live)
                    planned = kept.planned.games
                evaluation = Evaluation(
                    conditions=conditions,
                    games=done,
                    completeness=conditions.completeness([game.game for game in done]),
                    card=contender.version.card,
                    server_version=", ".join(sorted(programs)) or None,
                    run=run,
                )
                if planned == conditions.games:
                    # Write the result before the computation of luck, which may fail or be interrupted.
                    evaluation.write(folder, report(evaluation))

                def on_luck(number: int) -> None:
                    self.check()
                    progress.remark(
                        f"luck of the tiles: computed for {number:,} of {counted(len(done), 'game')}"
                    )

                evaluation = evaluation.with_luck(folder, games.values, on_luck)
                if planned == conditions.games:
                    evaluation.write(folder, report(evaluation))
                else:
                    progress.remark(
                        f"{folder.result} and {folder.report.name} are unchanged: they describe the "
                        f"{planned:,} games of an earlier run"
                    )
                return evaluation
        except (KeyboardInterrupt, OctofoldError):
            if progress.done or progress.running:
                finished = f"{progress.done:,} of {counted(games.number, 'game')} finished"
                if progress.running:
                    finished += f", {progress.running:,} more in progress"
                which = "all" if self.cluster is None else "all games that the tasks have reported"
                again = "command" if command else "call"
                # A long path on a line of its own is less likely to be broken.
                said = f"{finished}; {which} are kept, and the same {again} continues them:\n{folder.path}"
                print(said, file=sys.stderr)
            raise

    def _play_missing(
        self,
        contender: Contender,
        sources: Sequence[MoveSource],
        kept: KeptGames,
        games: Games,
        progress: "EvaluationProgress",
        live: LiveFile | None,
    ) -> tuple[list[GameSummary], RunFigures]:
        """Play the missing games. Return all requested games, sorted by index, and the figures of the run."""
        if kept.recovered:
            progress.remark(
                f"{kept.replays}: cut off {counted(kept.recovered, 'byte')} after the last whole game, "
                "left by an interrupted program or a power cut"
            )
        done = [game for game in kept.games if game.game in games.range]
        progress.resume(done)
        if live is not None:
            live.resume(len(done))
        largest = contender.largest_exponent or LARGEST_EXPONENT
        # Unfinished games start over if the player's largest exponent has changed.
        unfinished = [episode for episode in kept.unfinished if episode.largest_exponent == largest]
        begun = [episode for episode in unfinished if episode.game in games.range]
        beyond = [episode for episode in unfinished if episode.game not in games.range]
        known = {game.game for game in done} | {episode.game for episode in begun}
        left: list[int | Episode] = [*begun, *(game for game in games.range if game not in known)]
        parallel = games.parallel or (LOCAL_PARALLEL if isinstance(contender, LocalContender) else PARALLEL)

        def save(unfinished: list[Episode]) -> None:
            kept.save_unfinished(unfinished + beyond)

        def on_lost(server: int, error: OctofoldError) -> None:
            progress.remark(f"continuing without {sources[server].target}: {error}")

        if self.cluster is not None:
            steps = self.cluster.play(
                contender, games.seed, left, parallel, largest, progress.remark, self.check, save
            )
        else:
            asks = [source.ask for source in sources]
            steps = play(
                asks,
                games.seed,
                left,
                parallel,
                largest,
                self.check,
                on_lost,
                save,
                retry_timeout_seconds=games.retry_timeout_seconds,
            )
        started = time.monotonic()
        save_at = started + SAVE_SECONDS
        moves = requests = queue_us = inference_us = 0
        with closing(steps):
            for step in steps:
                finished = kept.append(step.finished)
                done += finished
                moves += step.moves
                requests += step.requests
                queue_us += step.queue_us
                inference_us += step.inference_us
                progress.update(step, finished)
                if live is not None:
                    live.update(step)
                self.check()
                if (now := time.monotonic()) >= save_at:
                    save(step.unfinished())
                    took = time.monotonic() - now
                    save_at = now + max(SAVE_SECONDS, took / _SAVING_SHARE)
        seconds = time.monotonic() - started
        kept.put_in_order(self.check)
        return in_order(done), RunFigures(moves, seconds, requests, queue_us, inference_us)


def evaluate(
    player: str | Sequence[str] | Player,
    folder: str | Path,
    *,
    games: int = 100,
    seed: int = 0,
    parallel: int | None = None,
    model: str = "",
    version: str = "",
    credentials: Credentials = PLAINTEXT,
    slice: tuple[int, int] | None = None,
) -> EvaluationResult:
    """Play full games and summarize them.

    All games are kept; after Ctrl-C, repeat the call to continue. Progress appears in the notebook or on
    standard error.

    Args:
        player: a local player, the address of a server, or addresses of several servers that share the games,
            as in `Client`.
        folder: folder for the replays, `result.json` and `report.md`; created if it is missing.
        games: number of games; games 0 to `games` - 1 of the seed are played.
        seed: seed of all new tiles, 0 to 2**64 - 1. Use the same seed for players that you compare.
        parallel: number of games at a time (default: 1,024; 64 for a local player). It does not change the
            games.
        model: model of the server; empty for the server's default.
        version: version of the model; empty for the newest ready version.
        credentials: credentials for the servers.
        slice: (K, N) to play only slice K of N; `merge` puts the slices together. None for all games.

    Raises:
        EvaluationError: `player` is not a player, the folder contains games of another evaluation or cannot
            be used, the slice does not exist, or `games`, `parallel` or `seed` is out of range.
        BrokenAnswer: the player made an illegal move, or did not return one move for each board.
        ReplayError: a replay file of the folder is damaged.
        OctofoldError: a call failed.
        OSError: a file cannot be written.
    """
    for name, value in (("games", games), ("parallel", parallel)):
        if value is not None and value < 1:
            raise EvaluationError(f"{name} must be at least 1, got {value}")
    if not 0 <= seed < 2**64:
        raise EvaluationError(f"seed must be from 0 to 2**64 - 1, got {seed}")
    if isinstance(player, Sequence) and not player:
        raise EvaluationError("player must be a local player or at least one address of a server")
    kept = ResultFolder(Path(folder))
    wanted = games if slice is None else Slice(*slice, games)
    if isinstance(player, str | Sequence):
        players = Players([player] if isinstance(player, str) else player, [(model, version)], credentials)
    else:
        players = Players(local=[LocalContender(player)])
    with players:
        (contender,) = players.contenders
        evaluation = players.play(contender, kept, Games(wanted, seed, parallel), command=False)
    return EvaluationResult(evaluation, kept)


def merge(folders: Sequence[str | Path], out: str | Path) -> EvaluationResult:
    """Put the slices of an evaluation together, as if one program had played all games.

    Args:
        folders: result folders of all slices, in any order.
        out: the new folder, which must be missing or empty.

    Raises:
        EvaluationError: the folders are not all slices of one finished evaluation, or `out` is not empty.
        ReplayError: a replay file is damaged.
        OSError: a file cannot be read or written.
    """
    return EvaluationResult(merge_slices(list(map(Path, folders)), Path(out)), ResultFolder(Path(out)))
