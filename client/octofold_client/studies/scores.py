"""The scores of an evaluation as a Parquet file, for programs that read tables of millions of rows.

It needs the package `pyarrow`, from the extra `logs`.
"""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from octofold_game.play_logs.reading import SCORES
from octofold_game.play_logs.streams import extra_module
from octofold_game.system.files import whole_file

from octofold_client.evaluation.game_table import GameSummary, GameTable
from octofold_client.evaluation.result import Evaluation

FILE = SCORES


def parquet_writer() -> Callable[[Evaluation, Path], None]:
    """A function that writes the scores of an evaluation to a file: a row for each game, as in `result.json`.

    The file's metadata `octofold` has the conditions of the games as JSON. The function raises `OSError` if
    the file cannot be written.

    Raises:
        LogError: pyarrow is not installed.
    """
    arrow, parquet = (extra_module(name, "Parquet") for name in ("pyarrow", "pyarrow.parquet"))

    def write(evaluation: Evaluation, path: Path) -> None:
        games = GameTable.of(evaluation.games)
        table = arrow.table({field.name: games.column(field.name) for field in fields(GameSummary)})
        conditions = json.dumps(evaluation.conditions.to_json())
        with whole_file(path) as partial:
            parquet.write_table(table.replace_schema_metadata({"octofold": conditions}), partial)

    return write
