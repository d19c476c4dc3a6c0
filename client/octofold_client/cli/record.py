"""`octofold record`: games as play logs, from which networks learn."""

from contextlib import ExitStack
from dataclasses import dataclass

from octofold_game.commands.options import Name, option
from octofold_game.commands.subcommands import Command
from octofold_game.contract.results import RESULTS
from rich.console import Console

from octofold_client.cli.arguments import GameFlags, ServerFlags, asked_for
from octofold_client.cli.json_output import JsonFlag, print_json
from octofold_client.cli.playing import as_json, folder_name, games_of, show
from octofold_client.contenders.local_players import local_player
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.session import Players
from octofold_client.studies.recording import LogFile, write_logs
from octofold_client.terminal.display import count_on, display_on
from octofold_client.wording import counted


@dataclass(kw_only=True)
class Options(JsonFlag, ServerFlags, GameFlags):
    """Its options."""

    model: Name = option(
        "", "model that plays, NAME or NAME:VERSION (default: the server's default model)", alone="who"
    )
    player: str | None = option(
        None, "player in this process, such as random or expectimax:depth=2", metavar="SPEC", alone="who"
    )


def record(options: Options) -> None:
    """Play games into a result folder and write their moves beside them.

    Raises:
        OctofoldError, OSError: as for `Players` and `write_logs`.
    """
    games = games_of(options)
    models = [] if options.player else [asked_for(options.model)]
    credentials = options.credentials()
    with ExitStack() as stack:
        local = [local_player(options.player)] if options.player else []
        players = stack.enter_context(
            Players(options.targets, models, credentials, local, patience_seconds=options.patience or 0)
        )
        (contender,) = players.contenders
        folder = ResultFolder(options.out or RESULTS / folder_name("record", contender, games))
        evaluation = players.play(contender, folder, games)
        if not options.json:
            show(folder, evaluation)
        total = sum(map(len, folder.finished()))
        with count_on(display_on(Console(stderr=True)), total, "written to logs", "moves") as count:
            files = write_logs(folder, count, players.check)
    if options.json:
        logs = [{"file": str(folder.path / each.file), "moves": each.moves} for each in files]
        print_json({"evaluations": [as_json(folder, evaluation)], "logs": logs})
    else:
        print(_logs_line(folder, files))


def _logs_line(folder: ResultFolder, files: list[LogFile]) -> str:
    moves = sum(file.moves for file in files)
    names = files[0].file if len(files) == 1 else f"{files[0].file} to {files[-1].file}"
    return f"logs:    {counted(moves, 'move')} in {folder.path}: {names}"


COMMAND = Command(
    "record",
    "play games and write their moves down, for networks to learn from",
    "Plays full games as evaluate does, and writes every move into play logs: the board, the "
    "move and the cell of the new tile. After Ctrl-C or a lost connection, the same command continues "
    "where it stopped.",
    Options,
    record,
    examples=(
        "--model flagship --games 100",
        "--player ntuple:models/ntuple/2 --games 1000 --out logs/ntuple",
    ),
)
