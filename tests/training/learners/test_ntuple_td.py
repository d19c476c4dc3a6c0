"""Training of the teacher: it learns, stops and continues, and refuses another run's tables."""

import json
import os
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from octofold_game.bitboards import pack
from octofold_players.compiled.table_files import TableFileError
from octofold_players.ntuple.network import NTupleNetwork, find_entries
from octofold_training.errors import TrainingError
from octofold_training.learners import ntuple_episodes
from octofold_training.learners.ntuple_td import NTupleLearner, NTupleOptions, NTupleProgress, train
from support.waiting import wait_for

FullDisk = Callable[[int], AbstractContextManager[None]]
SMALL = ((0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 4, 5), (5, 6, 9, 10))


def _options(**changes: Any) -> NTupleOptions:
    return replace(NTupleOptions(tuples=SMALL, threads=1), **changes)


def test_an_ntuple_network_learns_by_self_play() -> None:
    """With eight seeds, the average score became 4.1 times as high, with a standard deviation of 0.7: fewer
    than one in seven hundred fails by chance.
    """
    learner = NTupleLearner(_options())
    first = learner.learn(30_000)
    for _ in range(5):
        last = learner.learn(100_000)
    assert first.recent_average is not None
    assert last.recent_average is not None
    assert last.recent_average > 2 * first.recent_average


def test_a_move_that_outgrows_the_board_gives_its_points_to_the_previous_move() -> None:
    learner = NTupleLearner(_options(seed=3))
    buffers = learner._threads[0].buffers
    boards = np.array([[15, 15, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 1]], np.uint8)
    learner.network.values[:] = 0
    # Of all moves, only the two along the first row are legal, and either outgrows the board.
    length, score, last = ntuple_episodes._play(
        pack(boards)[0],
        learner._entries[:, 0],
        learner.network.layout,
        buffers,
        np.empty((4, 8 * len(SMALL)), np.uint64),
    )
    assert (length, score, last) == (0, 65_536, 65_536)
    left = pack(np.arange(16, dtype=np.uint8)[None])  # the views share no entry
    ntuple_episodes._learn_backwards(
        left,
        np.zeros(1, np.float32),
        last,
        np.float32(1),
        learner._entries,
        learner.network.layout,
        np.empty((4, 8 * len(SMALL)), np.uint64),
        np.empty(8 * len(SMALL), np.float32),
    )
    fetched = np.empty(8 * len(SMALL), np.uint64)
    find_entries(left[0], learner.network.values, learner.network.layout, fetched)
    assert learner.network.values[fetched.astype(np.int64)].sum() == pytest.approx(65_536)


def test_all_learning_rates_fall_to_zero_at_the_end(tmp_path: Path) -> None:
    options = _options(moves=40_000.0, cool_down=0.5)
    rates: list[float] = []
    learner = train(options, tmp_path, lambda learner, _: rates.append(options.rate_factor(learner.moves)))
    assert rates[0] > 0.9
    assert len(rates) > 10
    assert all(0 <= fallen < rate for rate, fallen in pairwise(rates))
    assert options.rate_factor(learner.moves) == 0.0
    learned = learner.network.values.copy()
    learner.learn(1_000)
    np.testing.assert_array_equal(learner.network.values, learned)


def test_threads_share_the_tables_and_every_move_is_counted() -> None:
    learner = NTupleLearner(_options(threads=2))
    progress = learner.learn(50_000)
    assert progress.moves == learner.moves >= 50_000
    assert np.isfinite(learner.network.values).all()


def test_a_run_continues_where_it_stopped(tmp_path: Path) -> None:
    options = _options(moves=60_000.0)
    reports: list[NTupleProgress] = []
    learner = train(options, tmp_path, lambda _, progress: reports.append(progress))
    resumed = NTupleLearner.resume(options, tmp_path)
    assert (resumed.episodes, resumed.moves) == (learner.episodes, learner.moves)
    np.testing.assert_array_equal(resumed.network.values, learner.network.values)
    again = train(options, tmp_path, lambda *_: pytest.fail("the time was used up"))
    assert again.moves == learner.moves


def test_ctrl_c_saves_the_learned_tables(tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(_options(), tmp_path, interrupt)
    assert NTupleLearner.resume(_options(), tmp_path).moves > 0


def test_ctrl_c_while_threads_play_keeps_and_counts_all_that_they_learned() -> None:
    learner = NTupleLearner(_options(threads=2))
    learner.learn(1_000)
    before, others = learner.moves, threading.active_count()
    values = learner.network.values.copy()

    def interrupt() -> None:
        wait_for(lambda: not np.array_equal(learner.network.values, values))
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        learner.learn(10**12)
    interrupting.join()
    assert learner.moves > before
    wait_for(lambda: threading.active_count() == others)


def test_a_run_can_start_from_a_network_and_changes_its_entries_slowly(tmp_path: Path) -> None:
    values = np.random.default_rng(1).choice([0, 200], NTupleNetwork.size(SMALL)).astype(np.float32)
    NTupleNetwork(SMALL, values).save(tmp_path / "known")
    options = _options(start=str(tmp_path / "known"), stages=(11,), moves=1.0)
    learner = train(options, tmp_path / "run", lambda *_: None)
    stages = learner.network.values.reshape(2, -1)
    assert (stages[1] == values).all()  # no game reaches the second stage
    learned = stages[0] != values
    assert 0 < learned.sum() < 20_000
    change = np.abs(stages[0] - values)
    assert change[learned & (values > 0)].mean() < change[learned & (values == 0)].mean() / 5


def test_a_run_cannot_start_from_a_network_of_another_shape(tmp_path: Path) -> None:
    NTupleLearner(_options()).network.save(tmp_path)
    with pytest.raises(TrainingError, match="but the run begins with"):
        NTupleLearner(_options(tuples=(*SMALL[1:], (0, 1, 2, 6)))).start(tmp_path)


def test_a_run_can_start_from_a_network_with_stages(tmp_path: Path) -> None:
    values = np.random.default_rng(1).choice([0, 200], 2 * NTupleNetwork.size(SMALL)).astype(np.float32)
    NTupleNetwork(SMALL, values, (11,)).save(tmp_path)
    learner = NTupleLearner(_options(stages=(11,)))
    learner.start(tmp_path)
    np.testing.assert_array_equal(learner.network.values, values)
    with pytest.raises(TrainingError, match="but the run begins with"):
        NTupleLearner(_options(stages=(12,))).start(tmp_path)


def test_a_full_disk_leaves_the_last_good_state(tmp_path: Path, full_disk: FullDisk) -> None:
    options = _options(tuples=(*SMALL, (0, 1, 2, 6)), first_tuples=4, first_moves=1_000.0)
    learner = NTupleLearner(options)
    learner.learn(1_000)
    learner.save(tmp_path)
    values = learner.network.values.copy()
    learner.grow()  # its files get larger and do not fit the existing ones
    learner.learn(1_000)
    with full_disk(2 * values.nbytes), pytest.raises(OSError, match="too large") as failure:
        learner.save(tmp_path)
    assert failure.value.filename == str(tmp_path / "coherence.npy")
    resumed = NTupleLearner.resume(options, tmp_path)
    np.testing.assert_array_equal(resumed.network.values, values)
    assert not list(tmp_path.glob("*.partial*"))


@pytest.mark.parametrize("moves", ["-5", '"x"'])
def test_impossible_counts_count_as_damage(tmp_path: Path, moves: str) -> None:
    NTupleLearner(_options()).save(tmp_path)
    (tmp_path / "learner.json").write_text(f'{{"episodes": 1, "moves": {moves}, "seconds": 1, "seed": 1}}')
    with pytest.raises(TrainingError, match=r"learner\.json: damaged, or written by another version"):
        NTupleLearner.resume(_options(), tmp_path)


def test_a_network_that_does_not_belong_to_a_run_is_not_overwritten(tmp_path: Path) -> None:
    NTupleLearner(_options()).network.save(tmp_path)
    before = (tmp_path / "values.npy").read_bytes()
    with pytest.raises(TrainingError, match=r"contains a network but no learner\.json"):
        train(_options(), tmp_path, lambda *_: None)
    assert (tmp_path / "values.npy").read_bytes() == before


def test_tuples_that_are_added_later_change_nothing_at_first_and_then_learn(tmp_path: Path) -> None:
    options = _options(tuples=(*SMALL, (0, 1, 2, 6)), first_tuples=4, first_moves=25_000.0, moves=60_000.0)
    learner = NTupleLearner(options)
    assert learner.network.tuples == SMALL
    learner.learn(20_000)
    learner.save(tmp_path)
    learner = NTupleLearner.resume(options, tmp_path)
    boards = np.random.default_rng(1).integers(0, 1 << 40, 50).astype(np.uint64)
    before = learner.network.action_values(boards)
    learner.grow()
    np.testing.assert_array_equal(learner.network.action_values(boards), before)

    train(options, tmp_path, lambda *_: None)
    resumed = NTupleLearner.resume(options, tmp_path)
    assert resumed.network.tuples == options.tuples
    assert np.abs(resumed.network.values[NTupleNetwork.size(SMALL) :]).max() > 0
    for other, said in ((_options(), "has tuples"), (replace(options, start="other"), "has start")):
        with pytest.raises(TrainingError, match=said):
            NTupleLearner.resume(other, tmp_path)


def test_a_stage_that_is_added_later_begins_with_the_previous_values_of_smaller_tiles(tmp_path: Path) -> None:
    options = _options(stages=(8, 7), stage_moves=20_000.0, moves=60_000.0)
    learner = NTupleLearner(options)
    learner.learn(20_000)
    learner.network.values[:] = np.arange(len(learner.network.values))  # the value of each entry is its index
    learner.save(tmp_path)
    assert NTupleNetwork.load(tmp_path).stages == ()
    learner = NTupleLearner.resume(options, tmp_path)
    learner.grow()
    start, early, late = np.split(learner.network.values, 3)
    np.testing.assert_array_equal(start, np.arange(len(start)))
    assert early[9 + (3 << 4) + (8 << 8) + (7 << 12)] == 8 + (3 << 4) + (7 << 8) + (7 << 12)
    assert late[9 + (3 << 4) + (8 << 8) + (7 << 12)] == 8 + (3 << 4) + (7 << 8) + (6 << 12)

    starts = early.copy(), late.copy()
    train(options, tmp_path, lambda *_: None)
    _, *learned = np.split(NTupleNetwork.load(tmp_path).values, 3)
    for start, values in zip(starts, learned, strict=True):
        assert (start != values).any()
    with pytest.raises(TrainingError, match="has stages"):
        NTupleLearner.resume(_options(stages=(9, 7)), tmp_path)


def test_most_games_can_begin_at_late_boards() -> None:
    shares = []
    for late_share in (0.0, 0.9):
        learner = NTupleLearner(_options(stages=(7,), late_share=late_share))
        learner.learn(20_000)
        progress = learner.learn(40_000)
        shares.append(progress.games / progress.episodes)
    assert shares[1] < shares[0] / 3


@pytest.mark.parametrize("stages", [(7, 8), (16,), (7.5,)])
def test_impossible_stages_are_refused(stages: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="stages"):
        _options(stages=stages)


@pytest.mark.parametrize(
    ("tuples", "message"),
    [
        ((), "at least one"),
        (((0, 1), (0, 1, 2, 3)), r"tuple \[0, 1, 2, 3\]: all tuples must have the same length"),
        (((0, 20),), r"tuple \[0, 20\]: cells must be whole numbers from 0 to 15"),
        (((5, 3),), r"tuple \[5, 3\]: .*, in ascending order"),
        ((tuple(range(8)),), "1 to 7 cells"),
    ],
)
def test_tuples_that_compiled_code_cannot_read_are_refused(
    tuples: tuple[tuple[int, ...], ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        _options(tuples=tuples)
    NTupleLearner(_options()).save(tmp_path)
    description = json.loads((tmp_path / "network.json").read_text())
    (tmp_path / "network.json").write_text(json.dumps({**description, "tuples": tuples}))
    with pytest.raises(TableFileError, match=message):
        NTupleNetwork.load(tmp_path)


def test_a_run_too_short_for_its_tuples_or_stages_says_so() -> None:
    options = _options(moves=1000.0, first_tuples=2, first_moves=5e8, stages=(9,), stage_moves=1000.0)
    assert options.warnings() == [
        "first_moves is 500,000,000, but the run has 1,000 moves: only the first tuples learn",
        "stage_moves is 1,000, but the run has 1,000 moves: no stage gets its own tables",
    ]
    assert _options(moves=1000.0, first_moves=5e8, stage_moves=5e8).warnings() == []


def test_values_that_are_not_numbers_stop_the_run_and_keep_the_last_state(tmp_path: Path) -> None:
    train(_options(moves=1000.0), tmp_path, lambda *_: None)
    before = (tmp_path / "values.npy").read_bytes()

    def break_it(learner: NTupleLearner, _: object) -> None:
        learner.network.values[:] = np.nan

    with pytest.raises(
        TrainingError, match=r"no longer finite numbers after [\d,]+ moves; .* keeps the previous save"
    ):
        train(_options(moves=2000.0), tmp_path, break_it)
    assert (tmp_path / "values.npy").read_bytes() == before
