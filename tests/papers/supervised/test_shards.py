"""Converted logs contain every move once, in random order, and conversion takes little memory."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from octofold_game.episodes import Episode, Episodes
from octofold_game.play_logs.moves import LogError, LoggedMoves
from octofold_game.play_logs.reading import BadLine
from octofold_game.play_logs.text import log_writer
from octofold_papers.supervised.shards import ShuffledMoves, convert
from octofold_training.errors import TrainingError
from support.logged_moves import moves_of, rows

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def played() -> LoggedMoves:
    """The moves of forty games."""
    episodes, ended = Episodes(7, range(40)), list[Episode]()
    while len(episodes.running):
        ended += episodes.step(np.where(episodes.legal, [1, 3, 4, 2], 0).argmax(axis=1).astype(np.uint8))
    return LoggedMoves.joined([moves_of(episode) for episode in ended])


@pytest.fixture
def log(tmp_path: Path, played: LoggedMoves) -> Path:
    path = tmp_path / "moves.txt"
    with log_writer(path) as append:
        append(played)
    return path


@pytest.fixture
def shuffled(tmp_path: Path, log: Path) -> ShuffledMoves:
    convert([log], tmp_path / "converted", shards=7)
    return ShuffledMoves(tmp_path / "converted")


def epoch(moves: ShuffledMoves, number: int, size: int = 100, start: int = 0) -> np.ndarray:
    return np.concatenate([rows(batch) for batch in moves.batches(number, size, start)])


def in_order(found: np.ndarray) -> list[list[int]]:
    return sorted(found.tolist())


def test_an_epoch_contains_every_move_once(shuffled: ShuffledMoves, played: LoggedMoves) -> None:
    assert len(shuffled) == len(played)
    sizes = [len(batch) for batch in shuffled.batches(0, 100)]
    assert sizes == [100] * (len(played) // 100) + [len(played) % 100]
    assert in_order(epoch(shuffled, 0)) == in_order(rows(played))


def test_epochs_differ_and_repeat(shuffled: ShuffledMoves) -> None:
    first = epoch(shuffled, 0)
    assert not np.array_equal(first, epoch(shuffled, 1))
    again = ShuffledMoves(shuffled.folder)
    assert np.array_equal(first, epoch(again, 0, size=37))
    assert not np.array_equal(first, epoch(ShuffledMoves(shuffled.folder, seed=1), 0))


@pytest.mark.parametrize("start", [0, 1, 99, 5000])
def test_an_epoch_continues_where_it_stopped(shuffled: ShuffledMoves, start: int) -> None:
    assert np.array_equal(epoch(shuffled, 3, start=start), epoch(shuffled, 3)[start:])


def test_neighboring_positions_of_a_batch_come_from_different_games(
    shuffled: ShuffledMoves, played: LoggedMoves
) -> None:
    sums = np.where(played.boards > 0, 1 << played.boards.astype(np.int64), 0).sum(axis=1)
    assert np.mean(np.abs(np.diff(sums)) <= 4) > 0.9
    found = np.where((boards := epoch(shuffled, 0)[:, :16]) > 0, 1 << boards.astype(np.int64), 0).sum(axis=1)
    shares = np.mean(np.abs(np.diff(found)) <= 4)
    assert shares < 0.05


def test_bad_lines_and_illegal_moves_are_skipped_and_counted(tmp_path: Path, log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    lines[4] = b"r\n"
    lines[9] = b"r " + b"1 2 3 4 " * 4 + b": 1 0\n"
    log.write_bytes(b"".join(lines))
    bad: list[BadLine] = []
    (source,) = convert([log], tmp_path / "converted", bad.append)
    assert (source.moves, source.bad_lines) == (len(lines) - 2, 2)
    assert [line.line for line in bad] == [5, 10]
    assert len(ShuffledMoves(tmp_path / "converted")) == len(lines) - 2
    index = json.loads((tmp_path / "converted" / "index.json").read_text())
    (stored,) = index["sources"]
    assert (stored["file"], stored["moves"], stored["bad_lines"]) == (str(log), len(lines) - 2, 2)
    assert sum(stored["last_field"].values()) == len(lines) - 2


def test_a_conversion_that_fails_leaves_nothing(tmp_path: Path, log: Path) -> None:
    with pytest.raises(FileNotFoundError):
        convert([log, tmp_path / "missing.txt"], tmp_path / "converted")
    log.write_text("nothing\n")
    with pytest.raises(LogError, match="no moves in"):
        convert([log], tmp_path / "converted")
    assert sorted(tmp_path.iterdir()) == [log]


def test_only_files_of_a_killed_conversion_are_deleted(tmp_path: Path, log: Path) -> None:
    partial = tmp_path / "converted.partial"
    partial.mkdir()
    (partial / "0000.moves").touch()
    (partial / "0999.moves").touch()  # left by a conversion into more shards
    (partial / "thesis.txt").touch()
    with pytest.raises(LogError, match=r"converted\.partial contains thesis\.txt and would be deleted"):
        convert([log], tmp_path / "converted")
    (partial / "thesis.txt").unlink()
    convert([log], tmp_path / "converted")
    assert not partial.exists()
    names = {file.name for file in (tmp_path / "converted").iterdir()}
    assert names == {"index.json", *(f"{shard:04}.moves" for shard in range(256))}


def test_two_conversions_into_one_folder_do_not_mix(tmp_path: Path, log: Path) -> None:
    def convert_too(_moves: int) -> None:
        with pytest.raises(TrainingError, match=f"{converted}: another process is working"):
            convert([log], converted)

    converted = tmp_path / "converted"
    (source,) = convert([log], converted, on_read=convert_too)
    assert len(ShuffledMoves(converted)) == source.moves


@pytest.mark.parametrize(
    ("shards", "message"),
    [
        ("[]", "lists no moves"),
        ('["a"]', "is damaged"),
    ],
)
def test_a_damaged_index_is_named(shuffled: ShuffledMoves, shards: str, message: str) -> None:
    (shuffled.folder / "index.json").write_text(f'{{"format": 1, "shards": {shards}}}')
    with pytest.raises(LogError, match=rf"index\.json {message}"):
        ShuffledMoves(shuffled.folder)


@pytest.mark.parametrize(("column", "value"), [(7, 18), (16, 4)])
def test_a_row_that_is_not_a_move_is_never_learned(shuffled: ShuffledMoves, column: int, value: int) -> None:
    (largest, *_) = sorted(shuffled.folder.glob("*.moves"), key=lambda file: -file.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[18 + column] = value
    largest.write_bytes(content)
    with pytest.raises(LogError, match=rf"{largest.name} is damaged: it has a row that is not a move"):
        list(ShuffledMoves(shuffled.folder).batches(0, 100))


def test_an_incomplete_folder_is_refused(shuffled: ShuffledMoves, tmp_path: Path, log: Path) -> None:
    with pytest.raises(LogError, match="already exists"):
        convert([log], shuffled.folder)
    with pytest.raises(LogError, match="make the folder with `octofold-papers moves`"):
        ShuffledMoves(tmp_path)
    (shuffled.folder / "0003.moves").write_bytes(b"")
    with pytest.raises(LogError, match=r"0003\.moves: must have .* bytes .* got 0"):
        ShuffledMoves(shuffled.folder)


UNDER_A_LIMIT = """
import resource, sys
from pathlib import Path
from octofold_papers.supervised.shards import ShuffledMoves, convert

log, folder, megabytes = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + megabytes * 2**20,) * 2)
convert([log], folder, shards=64)
moves = ShuffledMoves(folder)
print(sum(len(batch) for batch in moves.batches(0, 1000)))
"""


@pytest.mark.long  # nearly two million moves
def test_memory_holds_one_shard_and_not_all_moves(tmp_path: Path, log: Path, played: LoggedMoves) -> None:
    """The limit on address space is below the size of the moves and of their text."""
    content = log.read_bytes()
    repeats = 1_850_000 // len(played)
    with log.open("wb") as file:
        for _ in range(repeats):
            file.write(content)
    moves = repeats * len(played)
    megabytes = 26
    assert moves * 18 > 1.2 * megabytes * 2**20
    command = [sys.executable, "-c", UNDER_A_LIMIT, str(log), str(tmp_path / "converted"), str(megabytes)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert (done.stdout, done.stderr) == (f"{moves}\n", "")
