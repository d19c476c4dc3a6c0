"""Play logs in Parquet: a column for each part of a move, also for probabilities and for a judge's values.

It needs the package `pyarrow`, from the extra `logs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from octofold_game.play_logs.moves import LogError, LoggedMoves
from octofold_game.play_logs.streams import needing_logs
from octofold_game.rules import LARGEST_EXPONENT
from octofold_game.system.files import whole_file

BOARD, MOVE, CELL, PROBABILITIES, VALUES = "board", "move", "new_tile_cell", "probabilities", "values"
_ROWS = 1 << 16  # read at a time


def read_parquet(path: Path) -> Iterator[tuple[LoggedMoves, NDArray[np.int64], list[tuple[int, str]]]]:
    """Yield the moves of a file, some at a time, with their row numbers from 0 and the rows that are bad.

    Raises:
        LogError: pyarrow is not installed, or this is not a Parquet file of moves.
        OSError: the file cannot be read.
    """
    with needing_logs(f"{path}: Parquet"):
        import pyarrow as arrow
        from pyarrow import parquet
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            columns = [name for name in _types(arrow) if name in names]
            if twice := [name for name in columns if names.count(name) > 1]:
                raise LogError(f"{path}: a Parquet file with several columns {twice[0]!r}")
            if missing := [name for name in (BOARD, MOVE, CELL) if name not in columns]:
                raise LogError(f"{path}: a Parquet file without the column {missing[0]!r}")
            first = 0
            for batch in file.iter_batches(batch_size=_ROWS, columns=columns):
                yield _checked({name: _array(arrow, batch, name) for name in columns}, first)
                first += batch.num_rows
    except (arrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the file system; for a damaged file, pyarrow gives no number
        raise LogError(f"{path}: not a Parquet file of moves ({str(error).splitlines()[0]})") from error


@contextmanager
def parquet_writer(path: Path, columns: tuple[str, ...] = ()) -> Iterator[Callable[[LoggedMoves], None]]:
    """A function that appends moves to the file, which appears when the block ends without an error.

    Args:
        path: the file.
        columns: `PROBABILITIES`, `VALUES` or both, for moves that have them.

    Raises:
        LogError: pyarrow is not installed.
        OSError: the file cannot be written.
    """
    with needing_logs(f"{path}: Parquet"):
        import pyarrow as arrow
        from pyarrow import parquet
    types = {name: kind for name, kind in _types(arrow).items() if name in (BOARD, MOVE, CELL, *columns)}
    schema = arrow.schema([arrow.field(name, kind, nullable=False) for name, kind in types.items()])
    with whole_file(path) as partial, parquet.ParquetWriter(partial, schema, compression="zstd") as writer:

        def append(moves: LoggedMoves) -> None:
            arrays = dict(zip(_types(arrow), moves.columns, strict=True))
            rows = [_column(arrow, kind, arrays[name]) for name, kind in types.items()]
            writer.write_batch(arrow.record_batch(rows, schema=schema))

        yield append


def _types(arrow: ModuleType) -> dict[str, Any]:
    return {
        BOARD: arrow.list_(arrow.uint8(), 16),
        MOVE: arrow.uint8(),
        CELL: arrow.uint8(),
        PROBABILITIES: arrow.list_(arrow.float32(), 4),
        VALUES: arrow.list_(arrow.float64(), 4),
    }


def _column(arrow: ModuleType, kind: Any, array: NDArray[Any] | None) -> Any:
    if array is None:
        raise ValueError("these moves lack a column that the log has")
    if array.ndim == 1:
        return arrow.array(array, kind)
    items = arrow.array(np.ascontiguousarray(array).reshape(-1), kind.value_type)
    return arrow.FixedSizeListArray.from_arrays(items, type=kind)


def _array(arrow: ModuleType, batch: Any, name: str) -> NDArray[Any]:
    """A column as `[N]` or `[N, 16]` or `[N, 4]`.

    Raises:
        ArrowException: the column has another type.
    """
    kind = _types(arrow)[name]
    column = batch.column(name).cast(kind)
    width = getattr(kind, "list_size", 1)
    items = column.flatten() if width > 1 else column
    if column.null_count or items.null_count or len(items) != width * len(column):
        raise arrow.ArrowInvalid(f"the column {name!r} has missing numbers")
    array: NDArray[Any] = items.to_numpy(zero_copy_only=False)
    return array.reshape(-1, width) if width > 1 else array


def _checked(
    arrays: dict[str, NDArray[Any]], first: int
) -> tuple[LoggedMoves, NDArray[np.int64], list[tuple[int, str]]]:
    """The moves of some rows, their numbers, and the rows with numbers that are too large."""
    reasons = {
        f"an exponent is above {LARGEST_EXPONENT}": (arrays[BOARD] > LARGEST_EXPONENT).any(axis=1),
        "the move is above 3": arrays[MOVE] > 3,
        "the new tile's cell is above 15": arrays[CELL] > 15,
    }
    wrong = {row: reason for reason, rows in reasons.items() for row in np.flatnonzero(rows).tolist()}
    rows = np.arange(len(arrays[MOVE]))
    good = np.delete(rows, list(wrong))
    columns = (arrays.get(name) for name in (BOARD, MOVE, CELL, PROBABILITIES, VALUES))
    moves = LoggedMoves(*(None if column is None else column[good] for column in columns))  # type: ignore[arg-type]
    return moves, good + first, [(row + first, reason) for row, reason in sorted(wrong.items())]
