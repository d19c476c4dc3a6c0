"""`octofold record`: games as play logs, from which networks learn."""

from argparse import Namespace
from contextlib import ExitStack

from octofold_game.play_logs.reading import SUFFIXES
from rich.console import Console

from octofold_client.cli.arguments import (
    RESULTS,
    Subcommands,
    add_games,
    add_servers,
    asked_for,
    credentials_of,
)
from octofold_client.cli.json_output import add_json, print_json
from octofold_client.cli.judging import add_judge, judge_of
from octofold_client.cli.playing import Games, Players, as_json, folder_name, show
from octofold_client.contenders.judges import served_judge
from octofold_client.contenders.player_specs import LocalPlayer
from octofold_client.errors import UsageError
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.studies.recording import Content, LogFile, moves_in, write_logs
from octofold_client.terminal.display import count_on, display_on
from octofold_client.wording import counted


def add(subcommands: "Subcommands") -> None:
    """Add the subcommand."""
    parser = subcommands.add_parser(
        "record",
        help="play games and write their moves down, for networks to learn from",
        description="Plays full games as evaluate does, and writes every move into play logs: the board, the "
        "move and the cell of the new tile. After Ctrl-C or a lost connection, the same command continues "
        "where it stopped.",
    )
    add_servers(parser, use=" to share the games")
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--model",
        default="",
        metavar="NAME",
        help="model that plays, NAME or NAME:VERSION (default: the server's default model)",
    )
    who.add_argument(
        "--player", metavar="SPEC", help="player in this process, such as random or expectimax:depth=2"
    )
    add_games(parser)
    parser.add_argument(
        "--format",
        choices=[suffix[1:] for suffix in SUFFIXES],
        default="txt.gz",
        help="text, plain or compressed, or Parquet (default %(default)s; txt.zst and parquet need the "
        "extra logs)",
    )
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="also write the model's probabilities of the four moves (Parquet only)",
    )
    add_judge(parser, "also write what the four moves are worth to this judge (Parquet only)")
    add_json(parser)
    parser.set_defaults(run=record)


def record(options: Namespace) -> None:
    """Play games into a result folder and write their moves beside them.

    Raises:
        UsageError: the player has no probabilities, or the format has no room for what was asked for.
            Otherwise, as `Players` and `write_logs` do.
    """
    games = Games.of(options)
    if (options.probabilities or options.judge) and options.format != "parquet":
        raise UsageError("probabilities and a judge's values need --format parquet")
    if options.probabilities and options.player:
        raise UsageError(
            f"{options.player} has no probabilities; --judge {options.player} writes what moves are worth to "
            "a player that can judge"
        )
    models = [] if options.player else [asked_for(options.model)]
    specs = [options.player] if options.player else []
    credentials = credentials_of(options)
    with ExitStack() as stack:
        judge = judge_of(options, stack)
        players = stack.enter_context(Players(options.targets, models, credentials, specs))
        (contender,) = players.contenders
        player = None
        if options.probabilities:
            assert not isinstance(contender, LocalPlayer)
            player = served_judge(players.client, contender)
        folder = ResultFolder(games.out or RESULTS / folder_name("record", contender, games.seed))
        evaluation = players.play(contender, folder, games)
        if not options.json:
            show(folder, evaluation)
        content = Content(f".{options.format}", player, judge)
        total = moves_in(folder.finished())
        with count_on(display_on(Console(stderr=True)), total, "written to logs", "moves") as count:
            files = write_logs(folder, content, count, players.check)
    if options.json:
        logs = [{"file": str(folder.path / each.file), "moves": each.moves} for each in files]
        print_json({"evaluations": [as_json(folder, evaluation)], "logs": logs})
    else:
        print(_logs_line(folder, files))


def _logs_line(folder: ResultFolder, files: list[LogFile]) -> str:
    moves = sum(file.moves for file in files)
    names = files[0].file if len(files) == 1 else f"{files[0].file} to {files[-1].file}"
    return f"logs:    {counted(moves, 'move')} in {folder.path}: {names}"
