"""`octofold luck`: shows the luckiest and the unluckiest games of a result folder, and their tiles."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from octofold_game.commands.options import argument, option
from octofold_game.commands.subcommands import Command
from octofold_game.episodes import Episode
from rich.console import Console

from octofold_client.cli.json_output import JsonFlag, print_json
from octofold_client.cli.luck_flag import LuckFlag, tell
from octofold_client.contenders.judges import Judge
from octofold_client.errors import UsageError
from octofold_client.evaluation.luck import luck_by_move, luck_in
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.terminal.tables import print_markdown
from octofold_client.wording import aligned

_MOST = 1_000
_ROWS = "ABCD"
"""The rows of a board, from above; columns are 1 to 4."""


@dataclass(kw_only=True)
class Options(JsonFlag, LuckFlag):
    """Its options."""

    folder: Path = argument("FOLDER", "result folder")
    games: int = option(5, "how many of the luckiest and of the unluckiest games to show", 1, _MOST)


def luck(options: Options) -> None:
    """Print the games with the most and the least luck, and the best and the worst tile of each.

    Raises:
        UsageError: nobody's values are known.
        EvaluationError: the folder is not a result folder.
        ReplayError: the replay file is damaged.
    """
    folder, conditions = ResultFolder.of_evaluation(options.folder)
    with ExitStack() as stack:
        values = options.values(stack)
        if values is None:
            raise UsageError("luck needs values: name them by --luck, such as --luck ntuple:models/ntuple/2")
        known = luck_in(folder, values, tell)
        order = known.games[np.argsort(-known.whole, kind="stable")].tolist()
        shown = list(dict.fromkeys([*order[: options.games], *order[-options.games :]]))
        games = {each.game: each for each in folder.finished() if each.game in shown}
        taken = dict(zip(known.games.tolist(), known.whole.tolist(), strict=True))
        rows = [_row(games[game], taken[game], values) for game in shown]
    if options.json:
        print_json({"player": conditions.player, "values": values.name, "games": rows})
        return
    table: list[tuple[str, ...]] = [
        ("game", "score", "luck", "luckiest tile", "its luck", "unluckiest tile", "its luck")
    ]
    for row in rows:
        tiles = [cell for each in (row["luckiest"], row["unluckiest"]) for cell in _in_words(each)]
        table.append((f"{row['game']}", f"{row['score']:,}", f"{row['luck']:+,.0f}", *tiles))
    about = f"{conditions.player}, seed {conditions.seed}, in points, by the values of {values.name}:"
    print_markdown("\n".join([about, "", *aligned(table)]), Console())


def _row(game: Episode, taken: float, values: Judge) -> dict[str, Any]:
    by_tile = np.array([step.luck[0] for step in luck_by_move([game], values)])
    return {
        "game": game.game,
        "score": game.score,
        "luck": taken,
        "luckiest": _tile(game, by_tile, int(by_tile.argmax())),
        "unluckiest": _tile(game, by_tile, int(by_tile.argmin())),
    }


def _tile(game: Episode, by_tile: np.ndarray[Any, np.dtype[np.float64]], place: int) -> dict[str, Any]:
    byte = game.moves[place]
    cell = byte >> 2 & 15
    return {
        "move": place + 1,
        "tile": 2 << (byte >> 6),
        "cell": f"{_ROWS[cell // 4]}{cell % 4 + 1}",
        "luck": float(by_tile[place]),
    }


def _in_words(tile: dict[str, Any]) -> tuple[str, str]:
    return f"{tile['tile']} on {tile['cell']} after move {tile['move']:,}", f"{tile['luck']:+,.0f}"


COMMAND = Command(
    "luck",
    "show the luckiest and the unluckiest games",
    "Prints which finished games of a result folder had the best and the worst new tiles, and the best and "
    "the worst tile of each. Luck is what a tile adds to the expected score, compared with all tiles that "
    "could have come; that of a game is what its adjusted score leaves out. Rows of a board are A to D from "
    "above, columns 1 to 4.",
    Options,
    luck,
    examples=(
        "results/play-flagship-v4-seed0",
        "results/mine --games 20",
        "results/mine --luck ntuple:models/ntuple/2 --json",
    ),
)
