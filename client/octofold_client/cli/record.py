"""`octofold record`: games as play logs, from which networks learn."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated

from octofold_game.commands.options import Name, one_of, option
from octofold_game.commands.subcommands import Command
from octofold_game.contract.results import RESULTS
from octofold_game.play_logs.reading import SUFFIXES
from rich.console import Console

from octofold_client.cli.arguments import GameFlags, asked_for
from octofold_client.cli.json_output import JsonFlag, print_json
from octofold_client.cli.judging import JudgeFlags
from octofold_client.cli.playing import as_json, folder_name, games_of, show
from octofold_client.contenders.judges import served_judge
from octofold_client.contenders.local_players import LocalContender, local_player
from octofold_client.errors import UsageError
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.session import Players
from octofold_client.studies.recording import Content, LogFile, write_logs
from octofold_client.terminal.display import count_on, display_on
from octofold_client.wording import counted


@dataclass(kw_only=True)
class Options(JsonFlag, JudgeFlags, GameFlags):
    """Its options."""

    model: Name = option(
        "", "model that plays, NAME or NAME:VERSION (default: the server's default model)", alone="who"
    )
    player: str | None = option(
        None, "player in this process, such as random or expectimax:depth=2", metavar="SPEC", alone="who"
    )
    format: Annotated[str, one_of(*(suffix[1:] for suffix in SUFFIXES))] = option(
        "txt.gz",
        "text, plain or compressed, or Parquet (txt.zst and parquet need the extra logs); only Parquet has "
        "room for probabilities and for what a judge thinks",
    )
    probabilities: bool = option(
        False, "also write the model's probabilities of the four moves (Parquet only)"
    )


def record(options: Options) -> None:
    """Play games into a result folder and write their moves beside them.

    Raises:
        UsageError: the player has no probabilities, or the format has no room for what was asked for.
            Otherwise, as `Players` and `write_logs` do.
    """
    games = games_of(options)
    if (options.probabilities or options.judge) and options.format != "parquet":
        raise UsageError("probabilities and a judge's values need --format parquet")
    if options.probabilities and options.player:
        raise UsageError(
            f"{options.player} has no probabilities; --judge {options.player} writes what moves are worth to "
            "a player that can judge"
        )
    models = [] if options.player else [asked_for(options.model)]
    credentials = options.credentials()
    with ExitStack() as stack:
        judge = options.judge_of(stack)
        local = [local_player(options.player)] if options.player else []
        players = stack.enter_context(
            Players(options.targets, models, credentials, local, patience_seconds=options.patience or 0)
        )
        (contender,) = players.contenders
        player = None
        if options.probabilities:
            assert not isinstance(contender, LocalContender)
            player = served_judge(players.client, contender)
        folder = ResultFolder(options.out or RESULTS / folder_name("record", contender, games))
        evaluation = players.play(contender, folder, games)
        if not options.json:
            show(folder, evaluation)
        content = Content(f".{options.format}", player, judge)
        total = sum(map(len, folder.finished()))
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
        "--model swift --judge flagship --out logs/judged",
    ),
)
