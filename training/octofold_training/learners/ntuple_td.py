"""Trains n-tuple networks, such as the teacher, by self-play with temporal-coherence learning.

A thread plays an episode greedily, then learns from its last afterstate back to its first:

    s0 --(a0, r0)--> s0' --(spawn)--> s1 --(a1, r1)--> s1' ...      target of s0': r1 + (1-l) V(s1') + l G1

G1 is the target of s1', and l is lambda. Every table entry has its own rate |E| / A, where E is the sum of
its errors and A the sum of their absolute values (temporal coherence; Beal and Smith 1999, for 2048
Jaskowski, "Mastering 2048 with Delayed Temporal Coherence Learning", 2016).

The next episode restarts from the middle of the previous episode, until fewer than ten moves are left. So
late positions are frequent (Matsuzaki, "Developing 2048 Player with Backward Temporal Coherence Learning and
Restart", ACG 2017).

If late boards have their own tables, a share of the games begins with a board at which an earlier game
reached a late stage (carousel shaping, also in Jaskowski's article).

Threads share the tables without locks. The tables are so large that two updates rarely collide.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray
from octofold_game.commands.options import option
from octofold_game.system.files import atomic_write
from octofold_players.compiled.table_files import save_array
from octofold_players.ntuple.network import FOUR_SIX_TUPLES, NTupleNetwork, mapped_array
from octofold_players.ntuple.tuples import check_stages, check_tuples

from octofold_training.errors import TrainingError
from octofold_training.learners.ntuple_episodes import Buffers, Learning, learn
from octofold_training.run.curves import Curves, draw_curves
from octofold_training.run.folder import History, exclusive_folder
from octofold_training.run.progress import notice
from octofold_training.run.training_run import cool_down_factor

_CURVES = Curves({"recent_average": "Average score of the training games"})
SAVE_SECONDS = 300.0  # seconds of learning between saves: the large tables take long to write
_INITIAL_SUMS = np.array([15_000, 300_000], np.float32)
"""Sum of errors and sum of absolute errors of an entry from another network. Its first rate is 0.05."""
_INHERITED = 1e-3  # share of the error sums that a new stage inherits, so that its rates can change quickly


@dataclass(frozen=True)
class NTupleOptions:
    """Options of the training of an n-tuple network."""

    start: str = option("", "folder of an n-tuple network with the initial values; empty: all values are 0")
    tuples: tuple[tuple[int, ...], ...] = option(FOUR_SIX_TUPLES, "cells of each tuple, in ascending order")
    first_tuples: int = option(
        4, "number of tuples that learn alone at first, because fewer tuples learn faster", minimum=1
    )
    first_moves: float = option(
        0.0, "number of moves that the first tuples learn from before the other tuples join"
    )
    stages: tuple[int, ...] = option(
        (),
        "exponents of large tiles, descending; boards with the first tile have their own tables, boards with "
        "the first two tiles have others, and so on",
    )
    stage_moves: float = option(0.0, "number of moves before late stages get their own tables")
    moves: float = option(1e9, "moves that the whole run learns from, including resumed parts", minimum=1)
    late_share: float = option(0.5, "share of the games that begin in a late stage", maximum=0.9)
    cool_down: float = option(
        0.0, "share of the run, at its end, during which all learning rates fall to 0", maximum=1
    )
    threads: int = option(2, "number of threads that play and learn", minimum=1)
    seed: int = option(1, "seed of the new tiles")

    def __post_init__(self) -> None:
        check_tuples(self.tuples)
        check_stages(self.stages)

    def shape(self, moves: float) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        """Return the tuples and the stages of a run that has learned from `moves` moves."""
        tuples = self.tuples if moves >= self.first_moves else self.tuples[: self.first_tuples]
        return tuples, self.stages if moves >= self.stage_moves else ()

    def warnings(self) -> list[str]:
        """Return a warning for each option that has no effect because the run is too short."""
        late = {
            "first_moves": (
                self.first_moves,
                len(self.tuples) > self.first_tuples,
                "only the first tuples learn",
            ),
            "stage_moves": (self.stage_moves, bool(self.stages), "no stage gets its own tables"),
        }
        return [
            f"{name} is {due:,.0f}, but the run has {self.moves:,.0f} moves: {effect}"
            for name, (due, matters, effect) in late.items()
            if matters and due >= self.moves
        ]

    def rate_factor(self, moves: float) -> float:
        """Return the factor of all learning rates after `moves` moves: 1 until the cool-down, then less."""
        return cool_down_factor(moves, self.moves, self.cool_down)

    def next_change(self, moves: float) -> float:
        """Return the number of moves at which the tuples, stages or rates change next, or the run ends.

        In the cool-down, the rates fall in twenty steps.
        """
        steps: list[float] = np.linspace(self.moves * (1 - self.cool_down), self.moves, 21).tolist()
        changes = (self.first_moves, self.stage_moves, *steps)
        return min(due for due in changes if due > moves)


@dataclass(frozen=True)
class NTupleProgress:
    """The progress since the last report. Only games that were played from the first move have scores."""

    episodes: int
    games: int
    """Number of games that were played from the first move."""
    moves: int
    seconds: float
    recent_average: float | None
    """Average score of the games that were played from the first move, or None without such games."""
    best: int
    positions: int
    """Number of moves of the whole run so far."""


class _Counts(msgspec.Struct):
    """The progress of a saved run."""

    episodes: Annotated[int, msgspec.Meta(ge=0)]
    moves: Annotated[int, msgspec.Meta(ge=0)]
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    seed: int
    start: str | None = None  # unknown in states of version 0.2.0


class NTupleLearner:
    """The n-tuple network of a run, the error sums of its entries, and the threads that play and learn."""

    def __init__(self, options: NTupleOptions) -> None:
        self.options = options
        tuples, stages = options.shape(0)
        size = NTupleNetwork.size(tuples) * (len(stages) + 1)
        self._set_tables(tuples, stages, np.zeros((size, 3), np.float32))
        self._threads = [_Thread(options.seed, number) for number in range(options.threads)]
        self._stop = np.zeros(1, np.bool_)
        self.episodes = 0
        self.moves = 0
        self.seconds = 0.0

    def start(self, path: Path) -> None:
        """Copy the initial values from a network. If it has one stage, every stage gets the same values.

        An entry with the value 0 counts as untrained.

        Raises:
            TrainingError: the network has other tuples or stages than the run.
            TableFileError: the network cannot be read.
        """
        known, network = NTupleNetwork.load(path), self.network
        if known.tuples != network.tuples or known.stages not in ((), network.stages):
            raise TrainingError(
                f"start: {path} has tuples {known.tuples} and stages {known.stages}, but the run begins with "
                f"tuples {network.tuples} and stages {network.stages}"
            )
        values = known.values.reshape(len(known.stages) + 1, -1)
        entries = self._entries.reshape(len(network.stages) + 1, -1, 3)
        entries[:, :, 0] = values
        np.multiply((values != 0)[:, :, None], _INITIAL_SUMS, out=entries[:, :, 1:])

    @classmethod
    def resume(cls, options: NTupleOptions, folder: Path) -> NTupleLearner:
        """Continue a run that `save` wrote to `folder`, with the tuples and stages that it had.

        Raises:
            TrainingError: the tuples or stages of `options` do not begin with those of the run, the seed or
                the start differs, or the counts of the run cannot be read.
            TableFileError: the network of the run cannot be read.
        """
        saved = NTupleNetwork.load(folder)
        try:
            state = msgspec.json.decode((folder / "learner.json").read_bytes(), type=_Counts)
        except OSError as error:
            raise TrainingError(f"{folder / 'learner.json'}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise TrainingError(
                f"{folder / 'learner.json'}: damaged, or written by another version ({error}); name another "
                "--state"
            ) from error
        start = options.start if state.start is None else state.start
        for name, had, has, is_same in (
            ("tuples", saved.tuples, options.tuples, options.tuples[: len(saved.tuples)] == saved.tuples),
            ("stages", saved.stages, options.stages, options.stages[: len(saved.stages)] == saved.stages),
            ("seed", state.seed, options.seed, options.seed == state.seed),
            ("start", start, options.start, options.start == start),
        ):
            if not is_same:
                raise TrainingError(
                    f"{folder}: the run has {name} {had!r}, but the recipe has {has!r}; name another --state "
                    "to begin another run"
                )
        learner = cls(options)
        entries = np.empty((len(saved.values), 3), np.float32)
        entries[:, 0] = saved.values
        entries[:, 1:] = mapped_array(folder / "coherence.npy", (len(saved.values), 2))
        learner._set_tables(saved.tuples, saved.stages, entries)
        learner.episodes, learner.moves, learner.seconds = state.episodes, state.moves, state.seconds
        for thread in learner._threads:
            thread.reseed(learner.moves)  # otherwise, the run would repeat its first new tiles
        return learner

    def _set_tables(
        self, tuples: tuple[tuple[int, ...], ...], stages: tuple[int, ...], entries: NDArray[np.float32]
    ) -> None:
        # Value, sum of errors and sum of their absolute values are adjacent, so that an update loads them
        # together.
        self._entries = entries
        self.network = NTupleNetwork(tuples, entries[:, 0], stages)

    def grow(self) -> None:
        """Add the tuples and stages that are due and that the run lacks. Never removes any.

        New tuples start with values of 0, so that no board changes its value. A new stage starts with the
        values of the previous stage. For example, a board with a first 16384 gets the value of the board with
        an 8192 in its place, which is the best guess.
        """
        before = self.network
        due_tuples, due_stages = self.options.shape(self.moves)
        tuples = max(before.tuples, due_tuples, key=len)
        stages = max(before.stages, due_stages, key=len)
        if (tuples, stages) == (before.tuples, before.stages):
            return
        known = self._entries.reshape(len(before.stages) + 1, -1, 3)
        grown = np.zeros((len(stages) + 1, NTupleNetwork.size(tuples), 3), np.float32)
        grown[: len(known), : known.shape[1]] = known
        for stage in range(len(known), len(grown)):
            tile = stages[stage - 1]
            read = [e - (e >= tile if stage == 1 else e == tile) for e in range(16)]
            entries = grown[stage - 1].reshape(len(tuples), *[16] * len(tuples[0]), 3)
            for axis in range(1, entries.ndim - 1):
                entries = entries.take(read, axis)
            grown[stage] = entries.reshape(-1, 3)
            grown[stage, :, 1:] *= _INHERITED
        # Assigned last, so that an interruption changes nothing.
        self._set_tables(tuples, stages, grown.reshape(-1, 3))

    def save(self, folder: Path) -> None:
        """Write everything that `resume` needs.

        The new files replace the old ones after all new files are complete. So an interrupted save leaves the
        previous one, or files of both if it is interrupted during the replacement.
        """
        folder.mkdir(parents=True, exist_ok=True)
        state = {
            "episodes": self.episodes,
            "moves": self.moves,
            "seconds": round(self.seconds, 1),
            "seed": self.options.seed,
            "start": self.options.start,
        }
        # If the disk is full while the new files are written, no old file has changed.
        with (
            atomic_write(folder / "learner.json") as described,
            atomic_write(folder / "coherence.npy") as partial,
        ):
            described.write_text(json.dumps(state) + "\n", encoding="utf-8")
            save_array(partial, self._entries[:, 1:])
            self.network.save(folder)

    def learn(self, moves: int) -> NTupleProgress:
        """Play and learn for at least `moves` moves, counted over all threads."""
        start = time.perf_counter()
        self._stop[0] = False
        share = math.ceil(moves / len(self._threads))
        try:
            with ThreadPoolExecutor(len(self._threads)) as pool:
                try:
                    learning = [pool.submit(self._run, thread, share) for thread in self._threads]
                    wait(learning)
                finally:
                    self._stop[0] = True  # after Ctrl-C, the threads finish their episodes and count them
        finally:
            progress = self._count(time.perf_counter() - start)
        for each in learning:
            each.result()  # raises the exception of a failed thread
        return progress

    def _count(self, seconds: float) -> NTupleProgress:
        counts = np.array([thread.take_counts() for thread in self._threads])
        episodes, played, learned, total = counts[:, :4].sum(axis=0).tolist()
        self.episodes += episodes
        self.moves += learned
        self.seconds += seconds
        average, best = total / played if played else None, int(counts[:, 4].max())
        return NTupleProgress(episodes, played, learned, seconds, average, best, self.moves)

    def _run(self, thread: _Thread, moves: int) -> None:
        options = self.options
        of_thread = Learning(np.float32(options.rate_factor(self.moves)), options.late_share)
        with thread.learning:
            learn(self._entries, self.network.layout, of_thread, moves, self._stop, thread.buffers)


class _Thread:
    """The buffers of a thread and the seeds of its random numbers."""

    def __init__(self, seed: int, number: int) -> None:
        self.buffers = Buffers.empty()
        self.learning = threading.Lock()
        self._seed = [seed, number]
        self.reseed(0)

    def take_counts(self) -> NDArray[np.int64]:
        """Wait until the thread has stopped, and return its counts since the last call.

        A thread pool does not wait for a thread that was just starting when Ctrl-C came.
        """
        with self.learning:
            counts = self.buffers.counts.copy()
            self.buffers.counts[:] = 0
            return counts

    def reseed(self, moves: int) -> None:
        seed = np.random.SeedSequence([*self._seed, moves])
        self.buffers.random[:] = seed.generate_state(1, np.uint64)


def train(
    options: NTupleOptions,
    folder: Path,
    report: Callable[[NTupleLearner, NTupleProgress], None],
    minutes: float = math.inf,
) -> NTupleLearner:
    """Train until the whole run has `options.moves` moves, or for `minutes`. Resume a run in `folder`.

    The history is written to `folder` as JSON lines, and the learning curve as `curves.png`. `report` is
    called about every ten seconds. After Ctrl-C, the run is saved and the exception is raised again.

    Raises:
        TrainingError: `folder` is in use, not writable or of another run, or values are no longer finite.
        TableFileError: the network of the run or of the option `start` cannot be read.
    """
    with exclusive_folder(folder):
        resumed = (folder / "learner.json").exists()
        if not resumed and (folder / "values.npy").exists():
            raise TrainingError(f"{folder} contains a network but no learner.json; name another --state")
        learner = NTupleLearner.resume(options, folder) if resumed else NTupleLearner(options)
        if options.start and not resumed:
            learner.start(Path(options.start))
        history = History(folder / "history.jsonl", learner.moves, _CURVES.titles)
        saved = learner.seconds
        end = learner.seconds + minutes * 60
        slice_moves = 200_000
        try:
            while learner.moves < options.moves and learner.seconds < end:
                learner.grow()
                left_to_change = options.next_change(learner.moves) - learner.moves
                progress = learner.learn(min(slice_moves, math.ceil(left_to_change)))
                left = end - learner.seconds
                slice_moves = int(progress.moves / progress.seconds * min(10.0, max(left, 0.1)))
                report(learner, progress)
                history.append(progress)
                if learner.seconds - saved > SAVE_SECONDS:
                    _save(learner, history, folder)
                    saved = learner.seconds
        except KeyboardInterrupt:
            notice(f"stopping; saving the run in {folder}")
            raise
        finally:
            _save(learner, history, folder)
        return learner


def _save(learner: NTupleLearner, history: History, folder: Path) -> None:
    if not np.isfinite(learner.network.values).all():
        raise TrainingError(
            f"the values are no longer finite numbers after {learner.moves:,} moves; {folder} keeps the "
            "previous save"
        )
    learner.save(folder)
    draw_curves(history.reports, folder / "curves.png", _CURVES)
