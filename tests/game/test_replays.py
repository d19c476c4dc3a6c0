"""Replay files are read as they were written. Torn records are cut off, and damaged ones are named."""

import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from octofold_game.episodes import Episode
from octofold_game.referee import ReplayError, verify
from octofold_game.replays import ReplayInUse, ReplayWriter, check_replays, read_replays, recover
from support.replays import fields_of


@pytest.fixture
def path(tmp_path: Path, episodes: list[Episode]) -> Path:
    """A file of five games."""
    path = tmp_path / "games.replay"
    with ReplayWriter(path) as writer:
        for episode in episodes[:5]:
            writer.append(episode)
    return path


@pytest.fixture
def ends(tmp_path: Path, episodes: list[Episode]) -> list[int]:
    """The file sizes after 0 to 5 games."""
    other = tmp_path / "other.replay"
    sizes = []
    with ReplayWriter(other) as writer:
        sizes.append(other.stat().st_size)
        for episode in episodes[:5]:
            writer.append(episode)
            sizes.append(other.stat().st_size)
    return sizes


def test_games_are_read_as_they_were_written(path: Path, episodes: list[Episode]) -> None:
    games = list(read_replays(path))
    assert [fields_of(game) for game in games] == [fields_of(episode) for episode in episodes[:5]]
    for game in games:
        verify(game)


def test_a_game_with_the_largest_tiles_is_read_as_it_was_written(
    tmp_path: Path, episodes: list[Episode]
) -> None:
    final = np.array([18, 17, 16, 15] + 12 * [0], np.uint8)
    game = replace(episodes[0], largest_exponent=17, score=3_932_100, final_board=final)
    with ReplayWriter(tmp_path / "games") as writer:
        writer.append(game)
    assert [fields_of(found) for found in read_replays(tmp_path / "games")] == [fields_of(game)]


def test_each_game_is_in_the_file_as_soon_as_it_is_appended(tmp_path: Path, episodes: list[Episode]) -> None:
    with ReplayWriter(tmp_path / "games") as writer:
        assert list(read_replays(tmp_path / "games")) == []
        for count, episode in enumerate(episodes[:3], start=1):
            writer.append(episode)
            assert len(list(read_replays(tmp_path / "games"))) == count


def test_every_incomplete_last_record_is_reported_and_cut_off(
    path: Path, ends: list[int], episodes: list[Episode]
) -> None:
    whole = path.read_bytes()
    for size in range(ends[3] + 1, ends[4]):
        path.write_bytes(whole[:size])
        with pytest.raises(ReplayError, match=f"byte {ends[3]}: the file ends within") as error:
            list(read_replays(path))
        assert error.value.offset == ends[3]
        assert error.value.game in (None, episodes[3].game)
        assert recover(path) == size - ends[3]
        assert path.read_bytes() == whole[: ends[3]]


@pytest.mark.parametrize("size", range(12))
def test_a_file_with_an_incomplete_header_starts_anew(path: Path, episodes: list[Episode], size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])
    with ReplayWriter(path) as writer:
        writer.append(episodes[0])
    assert [fields_of(game) for game in read_replays(path)] == [fields_of(episodes[0])]


def test_a_writer_continues_after_an_incomplete_record(path: Path, episodes: list[Episode]) -> None:
    path.write_bytes(path.read_bytes()[:-9])
    with ReplayWriter(path) as writer:
        writer.append(episodes[9])
    assert [game.game for game in read_replays(path)] == [e.game for e in (*episodes[:4], episodes[9])]


@pytest.mark.parametrize("more", [0, 1, 5_000_000])
def test_zeros_that_a_power_cut_left_are_reported_and_cut_off(path: Path, ends: list[int], more: int) -> None:
    whole = path.read_bytes()
    for start in (ends[3], ends[3] + 1, ends[3] + 40, ends[3] + 56, ends[3] + 60, ends[4] - 2):
        content = whole[:start] + bytes(ends[4] - start) + bytes(more)
        path.write_bytes(content)
        with pytest.raises(ReplayError, match=f"byte {ends[3]}: zeros replace the game after game"):
            list(read_replays(path))
        with ReplayWriter(path) as writer:
            assert writer.recovered == len(content) - ends[3]
        assert path.read_bytes() == whole[: ends[3]]


@pytest.mark.parametrize("kept", [0, 3, 12])
def test_a_file_of_zeros_starts_anew(path: Path, episodes: list[Episode], kept: int) -> None:
    path.write_bytes(path.read_bytes()[:kept] + bytes(4096))
    with ReplayWriter(path) as writer:
        writer.append(episodes[0])
    assert [fields_of(game) for game in read_replays(path)] == [fields_of(episodes[0])]


def test_zeros_between_games_are_damage_and_not_changed(path: Path, ends: list[int]) -> None:
    content = path.read_bytes()
    content = content[: ends[2]] + bytes(ends[3] - ends[2]) + content[ends[3] :]
    path.write_bytes(content)
    with pytest.raises(ReplayError, match="damaged"):
        ReplayWriter(path)
    assert path.read_bytes() == content


def test_a_second_writer_is_refused_and_does_not_change_an_incomplete_record(
    path: Path, episodes: list[Episode]
) -> None:
    with ReplayWriter(path) as writer:
        with path.open("ab") as file:
            file.write(b"half a record")
        torn = path.read_bytes()
        with pytest.raises(ReplayInUse, match="another program is writing to this file"):
            ReplayWriter(path)
        assert path.read_bytes() == torn
    with ReplayWriter(path) as writer:
        writer.append(episodes[5])
    assert [game.game for game in read_replays(path)] == [episode.game for episode in episodes[:6]]


def test_every_damaged_byte_is_found_and_the_file_not_changed(
    path: Path, ends: list[int], episodes: list[Episode]
) -> None:
    whole = path.read_bytes()
    for place in range(ends[1], ends[2]):
        damaged = bytearray(whole)
        damaged[place] ^= 0x40
        path.write_bytes(damaged)
        games = read_replays(path)
        assert fields_of(next(games)) == fields_of(episodes[0])
        with pytest.raises(ReplayError, match=f"byte {ends[1]}: .* damaged") as error:
            next(games)
        assert error.value.offset == ends[1]
        if error.value.game is None:
            assert f"after game {episodes[0].game} " in str(error.value)
        else:
            assert error.value.game == episodes[1].game
        with pytest.raises(ReplayError, match="damaged"):
            recover(path)
        with pytest.raises(ReplayError, match="damaged"):
            ReplayWriter(path)
        assert path.read_bytes() == damaged


def test_other_files_are_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary, today I played 2048 again.\0\0\0\0")
    for attempt in (recover, ReplayWriter, lambda path: list(read_replays(path))):
        with pytest.raises(ReplayError, match=r"notes\.txt: not a replay file"):
            attempt(path)
    assert path.read_text().startswith("Dear diary")


def test_a_file_of_a_later_format_is_refused_with_its_number(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[8] = 2
    path.write_bytes(content)
    with pytest.raises(ReplayError, match="the replay format must be 1, got 2"):
        list(read_replays(path))


def test_a_full_disk_leaves_earlier_games(path: Path, episodes: list[Episode]) -> None:
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with ReplayWriter(path) as writer:
        # The system writes part of the record, then fails as on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, limits[1]))
        try:
            for _ in range(2):
                with pytest.raises(OSError, match="too large"):
                    writer.append(episodes[5])
                assert path.read_bytes() == before
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        writer.append(episodes[6])
    assert [game.game for game in read_replays(path)] == [e.game for e in (*episodes[:5], episodes[6])]


def test_a_wrong_game_is_named_with_its_offset_and_later_games_are_still_checked(
    tmp_path: Path, ends: list[int], episodes: list[Episode]
) -> None:
    path = tmp_path / "edited.replay"
    with ReplayWriter(path) as writer:
        for episode in (episodes[0], replace(episodes[1], score=episodes[1].score + 4), *episodes[2:4]):
            writer.append(episode)
    (_, first), (untrue, error), *rest = check_replays(path)
    assert first is None
    assert all(error is None for _, error in rest)
    assert untrue.game == episodes[1].game
    assert error is not None
    assert (error.game, error.offset) == (untrue.game, ends[1])
    assert str(error).startswith(f"{path}: byte {ends[1]}: game {untrue.game} of seed 7 scores ")


def test_a_game_that_occurs_twice_is_an_error(tmp_path: Path, episodes: list[Episode]) -> None:
    with ReplayWriter(tmp_path / "twice") as writer:
        writer.append(episodes[0])
        writer.append(episodes[0])
    errors = [error for _, error in check_replays(tmp_path / "twice")]
    assert errors[0] is None
    assert str(errors[1]).endswith(f"game {episodes[0].game} of seed 7 occurs twice")


@pytest.mark.parametrize(
    "wrong",
    [{"score": 2**63}, {"game": 2**63}, {"final_board": np.full(16, 255, np.uint8)}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_record_of_an_impossible_game_counts_as_damaged(
    tmp_path: Path, episodes: list[Episode], wrong: dict[str, Any]
) -> None:
    with ReplayWriter(tmp_path / "wrong") as writer:
        writer.append(episodes[0])
        writer.append(replace(episodes[1], **wrong))
    first = episodes[0].game
    with pytest.raises(ReplayError, match=f"the game after game {first} has numbers that are out of range"):
        list(read_replays(tmp_path / "wrong"))
