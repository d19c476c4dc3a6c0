"""Plays games into a result folder and shows progress; used by evaluate, compare, play and record."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from octofold_game.contract.results import RESULTS
from rich.console import Console

from octofold_client.cli.arguments import GAMES, GameFlags, name_in_folder
from octofold_client.cli.json_output import JsonFlag, print_json
from octofold_client.contenders.local_players import Contender, LocalContender
from octofold_client.errors import OctofoldError
from octofold_client.evaluation.lockstep import PATIENCE_SECONDS
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.result_folder import ResultFolder, check_writable
from octofold_client.evaluation.slices import Slice
from octofold_client.provenance import record_run
from octofold_client.session import Players, progress_of
from octofold_client.terminal.tables import print_report
from octofold_client.wording import counted


@dataclass(frozen=True)
class Games:
    """Which games to play, and where to keep them."""

    number: int
    seed: int
    parallel: int | None
    """Games at a time; None for the default of the player's kind."""
    out: Path | None
    watch: bool = False
    """Whether to write the running games for the page."""
    slice: Slice | None = None
    """The only games to play, of `number`."""
    patience_seconds: float = PATIENCE_SECONDS
    """How long to wait while no server answers."""

    @classmethod
    def of(cls, options: GameFlags) -> Self:
        """The games from the flags of `add_games`.

        Raises:
            EvaluationError: the folder of --out cannot be written, or there are fewer games than slices.
        """
        numbers: tuple[int, int] | None = getattr(options, "slice", None)
        games = options.games or GAMES
        part = Slice(*numbers, games) if numbers else None
        if options.out:
            check_writable(options.out)
        return cls(games, options.seed, options.parallel, options.out, options.watch, part, options.patience)

    @property
    def wanted(self) -> int | Slice:
        """The games to play, for `evaluate`."""
        return self.slice or self.number

    def folder_of(self, contender: Contender, *, alone: bool) -> ResultFolder:
        """The folder for the games of a contender; a subfolder of --out unless it is `alone`."""
        name = folder_name("evaluate", contender, self.seed, self.slice)
        if not self.out:
            return ResultFolder(RESULTS / name)
        return ResultFolder(self.out if alone else self.out / name)


def play(
    players: Players, contender: Contender, folder: ResultFolder, games: Games, number: int | None = None
) -> Evaluation:
    """Play `number` games (default: `games.number`) into `folder`, with progress on standard error.

    Raises:
        OctofoldError: the evaluation failed; a line on standard error has reported the kept games.
        KeyboardInterrupt: as for any other error.
    """
    wanted = number or games.wanted
    progress = progress_of(contender, wanted, games.seed)
    try:
        with record_run(folder.path):
            return players.play(
                contender,
                folder,
                progress,
                seed=games.seed,
                games=wanted,
                parallel=games.parallel,
                watch=games.watch,
                patience_seconds=games.patience_seconds,
            )
    except (KeyboardInterrupt, OctofoldError):
        if progress.done or progress.running:
            kept = f"{progress.done:,} of {counted(progress.games, 'game')} finished"
            if progress.running:
                kept += f", {progress.running:,} more in progress"
            which = "all" if players.cluster is None else "all that the tasks had sent"
            # The path has a line of its own, so that no terminal breaks it sooner than it must.
            print(
                f"{kept}; {which} are kept, and the same command continues them:\n{folder.path}",
                file=sys.stderr,
            )
        raise


def report(folder: ResultFolder, evaluation: Evaluation, options: JsonFlag, *, pace: bool = True) -> None:
    """Print one evaluation, as JSON if `--json` asks for it."""
    if options.json:
        print_json({"evaluations": [as_json(folder, evaluation)]})
    else:
        show(folder, evaluation, pace=pace)


def show(folder: ResultFolder, evaluation: Evaluation, *, pace: bool = True) -> None:
    """Print the table of an evaluation, its pace and the paths of its files."""
    print_report(evaluation, Console())
    print()
    if pace:
        print(_pace(evaluation))
    print(f"replays: {folder.replays}")
    print(f"result:  {folder.result}")
    print(f"report:  {folder.report}")


def as_json(folder: ResultFolder, evaluation: Evaluation) -> dict[str, Any]:
    """The fields of `result.json` without the rows of the games and the card, and the paths of the files."""
    content = evaluation.to_json()
    for long in ("schema", "scores", "card"):
        del content[long]
    files = {"replays": folder.replays, "result": folder.result, "report": folder.report}
    return content | {"files": {kind: str(file) for kind, file in files.items()}}


def folder_name(command: str, contender: Contender, seed: int, part: Slice | None = None) -> str:
    """A folder name such as "evaluate-cnn5-v3-seed1"."""
    model = name_in_folder(contender.model)
    version = f"v{contender.version.version}"
    if isinstance(contender, LocalContender) and not contender.names_itself and contender.sha256:
        version += f"-{contender.sha256[:8]}"  # a changed player gets a folder of its own
    suffix = f"-slice{part.number}of{part.of}" if part else ""
    return f"{command}-{model}-{version}-seed{seed}{suffix}"


def _pace(evaluation: Evaluation) -> str:
    run = evaluation.run
    if run is None or run.moves_per_second is None:
        return "An earlier run played all games."
    pace = f"{run.moves_per_second:,.0f} moves/s over {run.seconds:,.1f} s"
    inference = run.inference_us / run.requests / 1000
    queue = run.queue_us / run.requests / 1000
    return (
        f"pace:    {pace}; on average, a call queued for {queue:.1f} ms and computed for {inference:.1f} ms"
    )
