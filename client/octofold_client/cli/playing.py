"""Code that evaluate, compare, play and merge share: it selects games and folders, and prints results."""

from typing import Any

from octofold_game.contract.results import RESULTS
from rich.console import Console

from octofold_client.cli.arguments import GAMES, GameFlags, SliceFlag, name_in_folder
from octofold_client.cli.json_output import JsonFlag, print_json
from octofold_client.contenders.local_players import Contender, LocalContender
from octofold_client.evaluation.lockstep import RETRY_TIMEOUT_SECONDS
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.result_folder import ResultFolder, check_writable
from octofold_client.evaluation.slices import Slice
from octofold_client.evaluation.tables import markdown
from octofold_client.session import Games
from octofold_client.terminal.tables import print_markdown


def games_of(options: GameFlags) -> Games:
    """Return the games that the flags request.

    Raises:
        EvaluationError: the folder of --out cannot be written, or there are fewer games than slices.
    """
    number = options.games or GAMES
    numbers = options.slice if isinstance(options, SliceFlag) else None
    if options.out:
        check_writable(options.out)
    wanted = Slice(*numbers, number) if numbers else number
    patience = RETRY_TIMEOUT_SECONDS if options.patience is None else options.patience
    return Games(wanted, options.seed, options.parallel, options.watch, patience)


def folder_of(options: GameFlags, games: Games, contender: Contender, *, alone: bool) -> ResultFolder:
    """Return the folder for a contender's games: --out if it plays `alone`, otherwise a subfolder."""
    name = folder_name("evaluate", contender, games)
    if not options.out:
        return ResultFolder(RESULTS / name)
    return ResultFolder(options.out if alone else options.out / name)


def report(folder: ResultFolder, evaluation: Evaluation, options: JsonFlag, *, pace: bool = True) -> None:
    """Print one evaluation, as JSON if `--json` is given."""
    if options.json:
        print_json({"evaluations": [as_json(folder, evaluation)]})
    else:
        show(folder, evaluation, pace=pace)


def show(folder: ResultFolder, evaluation: Evaluation, *, pace: bool = True) -> None:
    """Print the table of an evaluation, its pace and the paths of its files."""
    print_markdown(markdown(evaluation), Console())
    print()
    if pace:
        print(_pace(evaluation))
    print(f"replays: {folder.replays}")
    print(f"result:  {folder.result}")
    print(f"report:  {folder.report}")


def as_json(folder: ResultFolder, evaluation: Evaluation) -> dict[str, Any]:
    """Return the fields of `result.json`, without card and games, and the paths of the files."""
    content = evaluation.to_json()
    for long in ("schema", "scores", "card"):
        del content[long]
    files = {"replays": folder.replays, "result": folder.result, "report": folder.report}
    return content | {"files": {kind: str(file) for kind, file in files.items()}}


def folder_name(command: str, contender: Contender, games: Games) -> str:
    """Return a folder name such as "evaluate-cnn5-v3-seed1"."""
    model, part = name_in_folder(contender.model), games.wanted
    version = f"v{contender.version.version}"
    if isinstance(contender, LocalContender) and not contender.has_own_digest and contender.sha256:
        version += f"-{contender.sha256[:8]}"  # games of a changed player get another folder
    suffix = f"-slice{part.number}of{part.of}" if isinstance(part, Slice) else ""
    return f"{command}-{model}-{version}-seed{games.seed}{suffix}"


def _pace(evaluation: Evaluation) -> str:
    run = evaluation.run
    if run is None or run.moves_per_second is None:
        return "An earlier run played all games."
    pace = f"{run.moves_per_second:,.0f} moves/s over {run.seconds:,.1f} s"
    inference = run.inference_us / run.requests / 1000
    queue = run.queue_us / run.requests / 1000
    times = f"{queue:.1f} ms in the queue and {inference:.1f} ms in the model"
    return f"pace:    {pace}; on average, a call was {times}"
