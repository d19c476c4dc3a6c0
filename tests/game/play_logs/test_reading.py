"""Log files are read as one stream, and bad lines are reported with their place."""

import gzip
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from octofold_game.play_logs.moves import CheckedMoves, LogError, LoggedMoves
from octofold_game.play_logs.reading import BLOCK_BYTES, SUFFIXES, BadLine, line_blocks, log_files, read_log
from octofold_game.play_logs.text import log_writer
from support.logged_moves import rows


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
def test_a_log_is_read_as_it_was_written(tmp_path: Path, played: LoggedMoves, suffix: str) -> None:
    path = write(tmp_path / f"moves{suffix}", [played, played])
    moves, bad = read(path, check_rules=True)
    assert not bad
    assert np.array_equal(rows(moves), np.concatenate([rows(played)] * 2))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_log_that_cannot_be_written_completely_leaves_no_file(
    tmp_path: Path, played: LoggedMoves, suffix: str
) -> None:
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
        f"{path}:8: it must have 20 parts, got 3",
        f"{path}:{len(lines) - 1}: a colon must follow the 16 exponents, got ','",
    ]
    checked, bad = read(path, check_rules=True)
    assert len(checked) == len(lines) - 3
    assert str(bad[1]) == f"{path}:10: right does not change the board"


def test_a_truncated_or_damaged_file_is_an_error(tmp_path: Path, played: LoggedMoves) -> None:
    path = write(tmp_path / "moves.txt.gz", [played])
    content = path.read_bytes()
    half, nearly = (content[: int(share * len(content))] for share in (0.5, 0.999))
    for wrong in (half, nearly, content[:8] + bytes(192) + content[200:]):
        path.write_bytes(wrong)
        with pytest.raises(LogError, match=str(path)):
            read(path)


def test_a_file_without_line_breaks_takes_the_memory_of_one_block(tmp_path: Path) -> None:
    path = tmp_path / "zeros"
    path.write_bytes(b"x" * 5_000_000)
    assert max(len(block) for block in line_blocks(path)) < 2 * BLOCK_BYTES
    assert [str(line) for line in read(path)[1]] == [f"{path}:1: it is longer than 1,000 bytes"]


def test_the_logs_of_a_folder_are_read_in_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt.gz", "result.json"):
        (tmp_path / name).touch()
    assert [file.name for file in log_files(tmp_path)] == ["a.txt.gz", "b.txt"]
    assert log_files(tmp_path / "b.txt") == [tmp_path / "b.txt"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogError, match="must contain play logs"):
        log_files(tmp_path / "empty")
    with pytest.raises(LogError, match="there is no"):
        log_files(tmp_path / "missing")
