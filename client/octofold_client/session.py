"""`evaluate` and `merge`: an evaluation as one call, and its slices put together, for programs and notebooks.

The commands play with the same `Players`.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from octofold_game.player import Player
from octofold_game.trajectories import GAMES_AT_ONCE, Climb, batched

from octofold_client.contenders.judges import Judge
from octofold_client.contenders.local_players import Contender, LocalContender
from octofold_client.errors import EvaluationError, OctofoldError
from octofold_client.evaluation.evaluate import ProgressObserver
from octofold_client.evaluation.evaluate import evaluate as run
from octofold_client.evaluation.live import LiveFile
from octofold_client.evaluation.lockstep import PATIENCE_SECONDS
from octofold_client.evaluation.merging import merge as merge_slices
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.evaluation.servers import Servers, report_loading, report_missing, sources_of
from octofold_client.evaluation.slices import Slice
from octofold_client.evaluation.summary import GameSummary, Summary
from octofold_client.evaluation.tables import markdown
from octofold_client.extras import needing
from octofold_client.provenance import record_run
from octofold_client.rpc.client import Client
from octofold_client.rpc.credentials import PLAINTEXT, Credentials
from octofold_client.terminal.interrupts import DeferredInterrupts
from octofold_client.wording import counted

if TYPE_CHECKING:  # extras, and rich
    from matplotlib.figure import Figure

    from octofold_client.ray.games import RayCluster


PARALLEL, LOCAL_PARALLEL = 1024, 64
"""Games at a time. A server needs large batches. A slow local player plays fewer games at a time, so that the
first ones finish soon."""


@dataclass(frozen=True, repr=False)
class EvaluationResult:
    """The result of `evaluate`; its representation is a table."""

    evaluation: Evaluation
    folder: ResultFolder
    """The replays, the result and the report."""

    @property
    def summary(self) -> Summary:
        """Average, median, best score and the share of games that reached each tile, with 95% intervals."""
        assert self.evaluation.summary is not None  # `evaluate` plays all games
        return self.evaluation.summary

    @property
    def games(self) -> Sequence[GameSummary]:
        """Score, largest tile and number of moves of each game, in the order of the games' indices."""
        return self.evaluation.games

    def figures(self) -> "dict[str, Figure]":
        """The pictures by name: score-distribution, survival-by-move, tiles-reached, score-by-move.

        Raises:
            EvaluationError: matplotlib is not installed (the extra `plots`).
            ReplayError: the replay file is damaged.
        """
        with needing("plots"):  # before the replays are read
            from octofold_client.studies.pictures import figures
        climb = Climb()
        for episodes in batched(self.folder.finished(), GAMES_AT_ONCE):
            climb.add(episodes)
        return figures(self.evaluation, climb)

    def __repr__(self) -> str:
        return markdown(self.evaluation)

    def _repr_markdown_(self) -> str:
        return repr(self)


@dataclass(frozen=True)
class Games:
    """Which games to play, and how."""

    wanted: int | Slice
    """So many games from the first one on, or a slice of them."""
    seed: int
    parallel: int | None = None
    """Games at a time; None for the default of the player's kind."""
    watch: bool = False
    """Whether to write the running games for the page, too."""
    patience_seconds: float = PATIENCE_SECONDS
    """How long to wait while no server answers."""
    values: Judge | None = None
    """Whose values take the luck out of averages."""

    @property
    def number(self) -> int:
        """The number of games to play."""
        return len(self.wanted.range) if isinstance(self.wanted, Slice) else self.wanted


@dataclass(eq=False)
class Players:
    """Served models and local players that are ready to play; a context manager.

    Signals, which only the main thread gets, take effect only in `check`. It is called while games are played
    and calls are awaited.
    """

    targets: Sequence[str] = ()
    """The servers of the models, as in `Servers`."""
    models: Sequence[tuple[str, str]] = ()
    """Names and versions, which may be empty."""
    credentials: Credentials = PLAINTEXT
    local: Sequence[LocalContender] = ()
    """Load them before `with`: it may take seconds, and Ctrl-C must end it at once."""
    cluster: "RayCluster | None" = None
    """Plays the games instead of this process."""
    patience_seconds: float = 0.0
    """How long to wait for a server at the start."""
    contenders: list[Contender] = field(default_factory=list, init=False)
    """First the models, then the local players."""
    check: Callable[[], None] = field(init=False)
    _servers: Servers | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        """Connect to the servers and find the models; lines on standard error name servers that are missing.

        Raises:
            EvaluationError: two servers have different model files.
            OctofoldError: no server answers, or a model is unknown.
        """
        with ExitStack() as stack:
            in_main_thread = threading.current_thread() is threading.main_thread()
            self.check = stack.enter_context(DeferredInterrupts()).check if in_main_thread else lambda: None
            if self.models:
                self._servers = stack.enter_context(
                    Servers(
                        self.targets,
                        self.credentials,
                        self.check,
                        report_missing,
                        report_loading,
                        self.patience_seconds,
                    )
                )
                self.contenders += [self._servers.select(*model) for model in self.models]
            self.contenders += self.local
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)

    @property
    def client(self) -> Client:
        """The client of the servers, if models play."""
        assert self._servers is not None
        return self._servers.client

    def play(
        self, contender: Contender, folder: ResultFolder, games: Games, *, command: bool = True
    ) -> Evaluation:
        """Play games into a folder, with progress on standard error or in a notebook.

        `command` tells whether the command line of this program plays them, which would continue them.

        Raises:
            OctofoldError: the evaluation failed; a line on standard error has told which games are kept.
            KeyboardInterrupt: as for any other error.
        """
        # Imported here, because programs that only ask for moves do not need rich.
        from rich.console import Console

        from octofold_client.terminal.progress import progress_on

        title = f"{contender.title}: {counted(games.number, 'game')}, seed {games.seed}"
        card = contender.version.card
        strength = card.strength if card else None
        progress = progress_on(Console(stderr=True), games.number, title, strength)
        parallel = games.parallel or (LOCAL_PARALLEL if isinstance(contender, LocalContender) else PARALLEL)
        try:
            with ExitStack() as stack:
                stack.enter_context(record_run(folder.path, command=command))
                stack.enter_context(progress)
                observer: ProgressObserver = progress
                if games.watch:
                    live = LiveFile(
                        progress, folder.path, player=contender.title, seed=games.seed, games=games.number
                    )
                    observer = stack.enter_context(live)
                remote_play = None
                if self.cluster is not None:
                    remote_play = self.cluster.games(
                        contender, games.seed, parallel, progress.remark, self.check
                    )
                return run(
                    sources_of(contender, self._servers, stack),
                    contender,
                    folder,
                    seed=games.seed,
                    games=games.wanted,
                    parallel=parallel,
                    progress=observer,
                    while_waiting=self.check,
                    remote_play=remote_play,
                    patience_seconds=games.patience_seconds,
                    values=games.values,
                )
        except (KeyboardInterrupt, OctofoldError):
            if progress.done or progress.running:
                kept = f"{progress.done:,} of {counted(games.number, 'game')} finished"
                if progress.running:
                    kept += f", {progress.running:,} more in progress"
                which = "all" if self.cluster is None else "all that the tasks had sent"
                again = "command" if command else "call"
                # The path has a line of its own, so that no terminal breaks it sooner than it must.
                said = f"{kept}; {which} are kept, and the same {again} continues them:\n{folder.path}"
                print(said, file=sys.stderr)
            raise


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

    All games are kept, and after Ctrl-C the same call continues. The notebook or stderr shows progress.

    Args:
        player: address of a server, addresses of several servers that share the games, as in `Client`, or a
            local player.
        folder: folder for the replays, `result.json` and `report.md`; created if it is missing.
        games: number of games; games 0 to `games` - 1 of the seed are played.
        seed: seed of all new tiles, 0 to 2**64 - 1. Use the same seed for players that you compare.
        parallel: games played at a time (default: 1,024; 64 for a local player); the games stay the same.
        model: model of the server; empty for the server's default.
        version: version of the model; empty for the newest ready version.
        credentials: credentials for the servers.
        slice: (K, N) plays only slice K of the games, cut into N slices; `merge` puts the slices together.

    Raises:
        EvaluationError: the folder contains games of another evaluation, there is no such slice, or a number
            is too small.
        BrokenAnswer: the player made an illegal move, or did not answer with a move for each board.
        OctofoldError: a call failed.
        OSError: the folder cannot be written.
    """
    for name, value in (("games", games), ("parallel", parallel)):
        if value is not None and value < 1:
            raise EvaluationError(f"{name} must be at least 1, got {value}")
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
