"""Log files of every format are read as one stream, and what is bad in them is reported with its place."""

import gzip
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zstandard
from octofold_game.play_logs.moves import CheckedMoves, LogError, LoggedMoves
from octofold_game.play_logs.parquet import PROBABILITIES, VALUES
from octofold_game.play_logs.reading import BadLine, log_files, read_log
from octofold_game.play_logs.streams import BLOCK_BYTES, begins_as_log, line_blocks
from octofold_game.play_logs.writing import log_writer
from support.logged_moves import rows

SUFFIXES = [".txt", ".txt.gz", ".txt.zst", ".parquet"]


def read(path: Path, *, check_rules: bool = False) -> tuple[LoggedMoves, list[BadLine]]:
    bad: list[BadLine] = []
    faults = [lambda moves: CheckedMoves.of(moves).broken()] if check_rules else []
    return LoggedMoves.joined(list(read_log(path, bad.append, *faults))), bad


def write(path: Path, parts: Iterable[LoggedMoves]) -> Path:
    with log_writer(path) as append:
        for part in parts:
            append(part)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_log_comes_back_as_it_was_written(tmp_path: Path, played: LoggedMoves, suffix: str) -> None:
    path = write(tmp_path / f"moves{suffix}", [played, played])
    moves, bad = read(path, check_rules=True)
    assert not bad
    assert np.array_equal(rows(moves), np.concatenate([rows(played)] * 2))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_log_that_fails_on_the_way_leaves_nothing(tmp_path: Path, played: LoggedMoves, suffix: str) -> None:
    def fail() -> Iterator[LoggedMoves]:
        yield played
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write(tmp_path / f"moves{suffix}", fail())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_bad_lines_are_reported_with_file_line_and_reason(
    tmp_path: Path, played: LoggedMoves, compress: Callable[[bytes], bytes]
) -> None:
    path = write(tmp_path / "moves.txt", [played] * 3)
    lines = path.read_bytes().splitlines(keepends=True)
    assert sum(map(len, lines)) > 3 * 2**18  # several blocks
    lines[7] = b"r 1 2\n"
    lines[-2] = lines[-2].replace(b" : ", b" , ")
    lines[9] = b"r " + b"1 2 3 4 " * 4 + b": 1 0\n"
    path.write_bytes(compress(b"".join(lines).rstrip(b"\n")))

    moves, bad = read(path)
    assert len(moves) == len(lines) - 2
    assert [str(line) for line in bad] == [
        f"{path}:8: it has 3 parts, a move has 20",
        f"{path}:{len(lines) - 1}: ',' stands where the colon belongs, after 16 exponents",
    ]
    checked, bad = read(path, check_rules=True)
    assert len(checked) == len(lines) - 3
    assert str(bad[1]) == f"{path}:10: right does not change the board"


def test_a_small_file_of_zstd_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "newlines.txt.zst"
    path.write_bytes(zstandard.compress(b"\n" * (1 << 27)))
    assert path.stat().st_size < 10_000
    tracemalloc.start()
    try:
        sizes = [len(block) for block in line_blocks(path)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(sizes) == 1 << 27
    assert max(sizes) < 2 * BLOCK_BYTES
    assert peak < 1 << 26


@pytest.mark.parametrize("before", [b"", b"\x50\x2a\x4d\x18\x04\0\0\0size", b"\x5f\x2a\x4d\x18\0\0\0\0"])
def test_frames_of_zstd_follow_each_other(tmp_path: Path, played: LoggedMoves, before: bytes) -> None:
    """Also those that a reader skips, such as pzstd writes."""
    path = write(tmp_path / "moves.txt.zst", [played])
    path.write_bytes((before + path.read_bytes()) * 2)
    assert begins_as_log(path)
    assert len(read(path)[0]) == 2 * len(played)


@pytest.mark.parametrize("suffix", SUFFIXES[1:])
@pytest.mark.parametrize("keep", [0.5, 0.999])
def test_a_file_that_is_cut_short_is_an_error(
    tmp_path: Path, played: LoggedMoves, suffix: str, keep: float
) -> None:
    path = write(tmp_path / f"moves{suffix}", [played])
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(LogError, match=str(path)):
        read(path)


@pytest.mark.parametrize("suffix", SUFFIXES[1:])
def test_a_damaged_file_is_an_error(tmp_path: Path, played: LoggedMoves, suffix: str) -> None:
    path = write(tmp_path / f"moves{suffix}", [played])
    content = bytearray(path.read_bytes())
    content[8:200] = bytes(192)
    path.write_bytes(content)
    with pytest.raises(LogError, match=str(path)):
        read(path)


def test_a_file_without_lines_takes_no_more_memory_than_a_block(tmp_path: Path) -> None:
    path = tmp_path / "zeros"
    path.write_bytes(b"x" * 5_000_000)
    assert max(len(block) for block in line_blocks(path)) < 2 * BLOCK_BYTES
    assert [str(line) for line in read(path)[1]] == [f"{path}:1: it is longer than 1,000 bytes"]


def test_probabilities_and_values_travel_in_parquet(tmp_path: Path, played: LoggedMoves) -> None:
    random = np.random.default_rng(0)
    full = LoggedMoves(
        played.boards,
        played.moves,
        played.cells,
        random.random((len(played), 4), np.float32),
        np.where(random.random((len(played), 4)) < 0.2, -np.inf, 1e5),
    )
    path = tmp_path / "moves.parquet"
    with log_writer(path, (PROBABILITIES, VALUES)) as append:
        append(full)
    moves, bad = read(path)
    assert not bad
    assert moves.probabilities is not None
    assert moves.values is not None
    assert np.array_equal(moves.probabilities, full.probabilities)  # type: ignore[arg-type]
    assert np.array_equal(moves.values, full.values)  # type: ignore[arg-type]
    with pytest.raises(LogError, match="a text log contains only moves; values need Parquet"):
        log_writer(tmp_path / "moves.txt", (VALUES,)).__enter__()


def test_bad_rows_and_foreign_columns_of_parquet_are_named(tmp_path: Path, played: LoggedMoves) -> None:
    import pyarrow
    from pyarrow import parquet

    boards = played.boards.copy()
    made, cells = played.moves.copy(), played.cells.copy()
    boards[3, 5], made[4], cells[5] = 18, 4, 16
    path = write(tmp_path / "moves.parquet", [LoggedMoves(boards, made, cells)])
    moves, bad = read(path)
    assert len(moves) == len(played) - 3
    assert [str(line) for line in bad] == [
        f"{path}:4: an exponent is above 17",
        f"{path}:5: the move is above 3",
        f"{path}:6: the new tile's cell is above 15",
    ]

    ragged = {"board": [[1] * 16, [1] * 15], "move": [0, 1], "new_tile_cell": [0, 0]}
    for table, message in [
        ({"board": [[0] * 16]}, "without the column 'move'"),
        (ragged, "not a Parquet file of moves"),
        ({**ragged, "board": [[1] * 16, None]}, "not a Parquet file of moves"),
        ({**ragged, "board": [[1] * 16] * 2, "move": ["up", "down"]}, "not a Parquet file of moves"),
    ]:
        parquet.write_table(pyarrow.table(table), path)
        with pytest.raises(LogError, match=message):
            read(path)
    column = pyarrow.array([0])
    parquet.write_table(pyarrow.table([column, column], names=["move", "move"]), path)
    with pytest.raises(LogError, match="several columns 'move'"):
        read(path)


def test_the_logs_of_a_folder_are_read_by_name(tmp_path: Path, played: LoggedMoves) -> None:
    for name in ("b.txt", "a.txt.gz", "result.json"):
        (tmp_path / name).touch()
    assert [file.name for file in log_files(tmp_path)] == ["a.txt.gz", "b.txt"]
    assert log_files(tmp_path / "b.txt") == [tmp_path / "b.txt"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogError, match="contains no play log"):
        log_files(tmp_path / "empty")
    with pytest.raises(LogError, match="there is no"):
        log_files(tmp_path / "missing")
    with pytest.raises(LogError, match="ends in one of"):
        write(tmp_path / "moves.csv", [played])


@pytest.mark.parametrize(("name", "package"), [("moves.txt.zst", "zstandard"), ("moves.parquet", "pyarrow")])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tmp_path: Path, played: LoggedMoves, name: str, package: str
) -> None:
    path = write(tmp_path / name, [played])
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from pathlib import Path\n"
        "from octofold_game.play_logs.reading import read_log\n"
        f"list(read_log(Path({str(path)!r}), print))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"needs {package}: run " in done.stderr
    assert "[logs]" in done.stderr
