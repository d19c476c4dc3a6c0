"""An evaluation as one call, for programs and notebooks: who plays, where the games are kept, how many.

It is made of the same parts as the command `octofold evaluate`.
"""

import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from octofold_game.player import Player

from octofold_client.analysis.trajectories import GAMES_AT_ONCE, Climb, batched
from octofold_client.contenders.contender import Contender
from octofold_client.contenders.player_specs import LocalPlayer
from octofold_client.contenders.player_thread import PlayerThread
from octofold_client.errors import OctofoldError
from octofold_client.evaluation.evaluate import Source
from octofold_client.evaluation.evaluate import evaluate as run
from octofold_client.evaluation.report import markdown
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.evaluation.servers import Servers
from octofold_client.evaluation.summary import GameSummary, Summary
from octofold_client.extras import pictures_of
from octofold_client.rpc.credentials import PLAINTEXT, Credentials
from octofold_client.terminal.interrupts import DeferredInterrupts
from octofold_client.wording import counted

if TYPE_CHECKING:  # an extra
    from matplotlib.figure import Figure

    from octofold_client.terminal.progress import Progress


@dataclass(frozen=True, repr=False)
class EvaluationResult:
    """What `evaluate` found. It shows itself as a table."""

    evaluation: Evaluation
    folder: ResultFolder
    """Where the replays, the result and the report are."""

    @property
    def summary(self) -> Summary:
        """Average, median, best, share of games that reached each tile, each with its 95% interval."""
        return self.evaluation.summary

    @property
    def games(self) -> tuple[GameSummary, ...]:
        """Every game's score, largest tile and number of moves, in the order of their index."""
        return self.evaluation.games

    def figures(self) -> "dict[str, Figure]":
        """The pictures by name: score-distribution, survival-by-move, tiles-reached, score-by-move.

        Raises `EvaluationError` where matplotlib is missing (the extra `plots`), `ReplayError` for a replay
        file that was damaged since.
        """
        drawing = pictures_of("octofold_client.analysis.pictures")  # asked before the work
        climb = Climb()
        for episodes in batched(self.folder.finished(), GAMES_AT_ONCE):
            climb.add(episodes)
        figures: dict[str, Figure] = drawing.figures(self.evaluation, climb)
        return figures

    def __repr__(self) -> str:
        return markdown(self.summary, self.evaluation.title)

    def _repr_markdown_(self) -> str:
        return repr(self)


def evaluate(
    player: str | Sequence[str] | Player,
    folder: str | Path,
    *,
    games: int = 100,
    seed: int = 0,
    parallel: int = 512,
    model: str = "",
    version: str = "",
    credentials: Credentials = PLAINTEXT,
) -> EvaluationResult:
    """Plays full games and sums them up. All games are kept in `folder`, and the same call goes on from
    there, after Ctrl-C or a lost connection too. Progress is shown in the notebook, else on standard error.

    Args:
        player: the address of a server, several that share the games, or a player in this process.
        folder: takes the replays, `result.json` and `report.md`; made where it is missing.
        games: games 0 to `games` - 1 of the seed are played.
        seed: of all their tiles, 0 to 2**64 - 1: players that are to be compared get the same.
        parallel: games at a time; they do not depend on it.
        model: whom to ask of the server; empty for its default.
        version: of the model; empty for the newest that is ready.
        credentials: for the servers.

    Raises:
        OctofoldError: see `errors.py`; `EvaluationError` for a folder that holds other games, `BrokenAnswer`
            for a move that is not legal.
        OSError: the folder cannot be written.
    """
    kept = ResultFolder(Path(folder))
    with ExitStack() as stack:
        contender: Contender
        sources: Sequence[Source]
        # Python lets only the main thread hear of signals.
        in_main_thread = threading.current_thread() is threading.main_thread()
        check = stack.enter_context(DeferredInterrupts()).check if in_main_thread else lambda: None
        if isinstance(player, str | Sequence):
            targets = [player] if isinstance(player, str) else player
            servers = stack.enter_context(Servers(targets, credentials, check, _missing))
            contender = served = servers.select(model, version)
            sources = servers.sources(served)
        else:
            contender = local = LocalPlayer(player)
            sources = [stack.enter_context(PlayerThread(local))]
        title = f"{contender.title}: {counted(games, 'game')}, seed {seed}"
        progress = _progress(games, title)
        stack.enter_context(progress)
        evaluation = run(
            sources,
            contender,
            kept,
            seed=seed,
            games=games,
            parallel=parallel,
            progress=progress,
            while_waiting=check,
        )
    return EvaluationResult(evaluation, kept)


def _missing(target: str, reason: OctofoldError) -> None:
    print(f"{target} is not asked: {reason}", file=sys.stderr)


def _progress(games: int, title: str) -> "Progress":
    # Imported here: a program that only asks for moves needs no terminal library.
    from rich.console import Console

    from octofold_client.terminal.progress import progress_on

    return progress_on(Console(stderr=True), games, title)
