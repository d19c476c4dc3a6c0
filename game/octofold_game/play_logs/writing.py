"""Writes play logs; the name of the file chooses the format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from octofold_game.play_logs.moves import LogError, LoggedMoves
from octofold_game.play_logs.parquet import parquet_writer
from octofold_game.play_logs.reading import SUFFIXES
from octofold_game.play_logs.streams import whole_text_file
from octofold_game.play_logs.text import written


@contextmanager
def log_writer(path: Path, columns: tuple[str, ...] = ()) -> Iterator[Callable[[LoggedMoves], None]]:
    """A function that appends moves to a log file, which appears when the block ends without an error.

    Args:
        path: the file; its name ends in one of `SUFFIXES`.
        columns: what the log has beside the moves, `parquet.PROBABILITIES` and `parquet.VALUES`. Only Parquet
            has room for them.

    Raises:
        LogError: the suffix is unknown, the format does not support the columns, or a package is missing.
        OSError: the file cannot be written.
    """
    if not path.name.endswith(SUFFIXES):
        raise LogError(f"{path}: the name of a play log ends in one of {', '.join(SUFFIXES)}")
    if path.suffix == ".parquet":
        with parquet_writer(path, columns) as append:
            yield append
        return
    if columns:
        raise LogError(f"{path}: a text log contains only moves; {' and '.join(columns)} need Parquet")
    with whole_text_file(path) as file:

        def append_lines(moves: LoggedMoves) -> None:
            file.write(written(moves))

        yield append_lines
