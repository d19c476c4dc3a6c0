"""Plays games into a result folder, with progress on the terminal: for several subcommands."""

import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich.console import Console

from octofold_client.cli.arguments import LOCAL_PARALLEL, PARALLEL, RESULTS
from octofold_client.contenders.contender import Contender
from octofold_client.contenders.player_specs import LocalPlayer, local_player
from octofold_client.contenders.player_thread import PlayerThread
from octofold_client.contenders.served_model import ServedModel
from octofold_client.errors import OctofoldError
from octofold_client.evaluation.evaluate import Source
from octofold_client.evaluation.evaluate import evaluate as run_evaluation
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.result_folder import ResultFolder, check_writable
from octofold_client.evaluation.servers import Servers
from octofold_client.rpc.client import Client
from octofold_client.rpc.credentials import Credentials
from octofold_client.terminal.interrupts import DeferredInterrupts
from octofold_client.terminal.progress import progress_on
from octofold_client.terminal.tables import print_report
from octofold_client.wording import counted


@dataclass(frozen=True)
class Games:
    """Which games are played, and where they are kept."""

    number: int
    seed: int
    parallel: int | None
    """Games at a time; None: as many as suit the player."""
    out: Path | None

    @classmethod
    def of(cls, options: Namespace) -> Self:
        """What the flags of `add_games` say. Raises `EvaluationError` for an --out that cannot be written."""
        if options.out:
            check_writable(options.out)
        return cls(options.games, options.seed, options.parallel, options.out)

    def folder_of(self, contender: Contender, *, alone: bool) -> ResultFolder:
        """Where the games of a contender belong; below --out, a folder for each of several."""
        name = folder_name("evaluate", contender, self.seed)
        if not self.out:
            return ResultFolder(RESULTS / name)
        return ResultFolder(self.out if alone else self.out / name)


class Players:
    """Models of servers and local players that are ready to play; a context manager.

    Signals wait until `check` is called, which happens while games are played and calls are awaited.
    """

    def __init__(
        self,
        targets: Sequence[str],
        models: Sequence[tuple[str, str]],
        credentials: Credentials,
        specs: Sequence[str] = (),
    ) -> None:
        self._targets = targets
        self._models = models
        self._credentials = credentials
        self._specs = specs
        self.contenders: list[ServedModel | LocalPlayer] = []
        """The models in their order, then the local players in theirs."""

    def __enter__(self) -> Self:
        """Connects to the servers and finds the models. Raises as `Servers` and `local_player` do."""
        # First: what a player needs may take seconds to load, and Ctrl-C is to end that at once.
        local = [local_player(spec) for spec in self._specs]
        with ExitStack() as stack:
            self.check = stack.enter_context(DeferredInterrupts()).check
            if self._models:
                self._servers = stack.enter_context(
                    Servers(self._targets, self._credentials, self.check, _missing)
                )
                self.contenders += [self._servers.select(*model) for model in self._models]
            self.contenders += local
            self._stack = stack.pop_all()
        return self

    @property
    def client(self) -> Client:
        """The client of the first server; only where models play."""
        return self._servers.client

    def __exit__(self, *raised: object) -> None:
        self._stack.__exit__(*raised)  # type: ignore[arg-type]  # handed on as they are

    def play(
        self,
        contender: ServedModel | LocalPlayer,
        folder: ResultFolder,
        games: Games,
        number: int | None = None,
    ) -> Evaluation:
        """Plays `number` games (default: that of `games`) into `folder`, with progress on standard error.

        Raises as `evaluation.evaluate` does, after a line that says what is kept.
        """
        number = number or games.number
        title = f"{contender.title}: {counted(number, 'game')}, seed {games.seed}"
        progress = progress_on(Console(stderr=True), number, title)
        try:
            with ExitStack() as stack, progress:
                sources: Sequence[Source]
                if isinstance(contender, LocalPlayer):
                    sources = [stack.enter_context(PlayerThread(contender))]
                    parallel = LOCAL_PARALLEL
                else:
                    sources = self._servers.sources(contender)
                    parallel = PARALLEL
                return run_evaluation(
                    sources,
                    contender,
                    folder,
                    seed=games.seed,
                    games=number,
                    parallel=games.parallel or parallel,
                    progress=progress,
                    while_waiting=self.check,
                )
        except (KeyboardInterrupt, OctofoldError):
            if progress.done or progress.running:
                kept = f"{progress.done:,} of {counted(number, 'game')} are kept in {folder.path}"
                if progress.running:
                    kept += f", and the {progress.running:,} that were running"
                print(f"{kept}; the same command goes on from there.", file=sys.stderr)
            raise


def show(folder: ResultFolder, evaluation: Evaluation) -> None:
    """Prints the table of an evaluation and where its files lie."""
    print_report(evaluation.summary, evaluation.title, Console())
    print()
    print(_pace(evaluation))
    print(f"replays: {folder.replays}")
    print(f"result:  {folder.result}")
    print(f"report:  {folder.report}")


def folder_name(command: str, contender: Contender, seed: int) -> str:
    """Such as "evaluate-cnn5-v3-seed1"."""
    # A local player's name may hold a path.
    model = re.sub(r"[^\w.,=-]+", "-", contender.model)
    version = f"v{contender.version.version}"
    if isinstance(contender, LocalPlayer) and not contender.names_itself and contender.sha256:
        version += f"-{contender.sha256[:8]}"  # a changed player gets a folder of its own
    return f"{command}-{model}-{version}-seed{seed}"


def _missing(target: str, reason: OctofoldError) -> None:
    print(f"{target} is not asked: {reason}", file=sys.stderr)


def _pace(evaluation: Evaluation) -> str:
    run = evaluation.run
    if run is None or run.moves_per_second is None:
        return "All games were played by an earlier run."
    pace = f"{run.moves_per_second:,.0f} moves/s over {run.seconds:,.1f} s"
    inference = run.inference_us / run.requests / 1000
    queue = run.queue_us / run.requests / 1000
    return f"pace:    {pace}; a call queued for {queue:.1f} ms and computed for {inference:.1f} ms"
