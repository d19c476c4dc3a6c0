"""`octofold merge`: puts the slices of an evaluation together."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from octofold_game.commands.options import Folder, argument, option
from octofold_game.commands.subcommands import Command
from rich.console import Console

from octofold_client.cli.judge_flags import LuckFlag
from octofold_client.cli.result_output import print_result
from octofold_client.cli.shared_flags import JsonFlag
from octofold_client.evaluation.merging import merge as merge_slices
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.terminal.display import count_on, display_on


@dataclass(kw_only=True)
class Options(JsonFlag, LuckFlag):
    """Options of `octofold merge`."""

    folders: list[Path] = argument("DIR", "result folder of a slice", words="+")
    out: Folder = option(..., "new folder for the whole evaluation (required)")


def merge(options: Options) -> None:
    """Merge the slices into a new folder, and print the table of the whole evaluation.

    Raises:
        EvaluationError: the folders are not all slices of one finished evaluation, or --out is not empty.
        ReplayError: a replay file is damaged.
    """
    with ExitStack() as stack:
        values = options.values(stack)
        shown = count_on(display_on(Console(stderr=True)), None, f"merging into {options.out}", "games")
        count = stack.enter_context(shown)
        evaluation = merge_slices(options.folders, options.out, on_read=count, values=values)
    # Print no pace: the slices may have run at the same time, and their times are added up.
    print_result(ResultFolder(options.out), evaluation, options, pace=False)


COMMAND = Command(
    "merge",
    "put the slices of an evaluation together",
    "Puts the result folders of all slices (octofold evaluate --slice K/N) together, as if "
    "one program had played all games, and prints the table. Fails if the folders have different "
    "conditions, if games are missing, or if a game is in two folders.",
    Options,
    merge,
    examples=(
        "--out results/whole results/slice1 results/slice2",
        "--out results/whole results/slice*",
        "--json --out results/whole results/slice*",
    ),
)
