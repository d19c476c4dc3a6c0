"""Temporal-coherence learning of n-tuple networks by self-play: how the teacher is made.

Each episode is played greedily, then learned from its last afterstate back to its first:

    s0 --(a0, r0)--> s0' --(spawn)--> s1 --(a1, r1)--> s1' ...      target of s0': r1 + (1-l) V(s1') + l G1

with G1 the target of s1' and l lambda. Every table entry has its own rate |E| / A from the sums of its errors
and of their sizes (temporal coherence; Beal and Smith 1999, for 2048 Jaskowski, "Mastering 2048 with
Delayed Temporal Coherence Learning", 2016). After an episode the next one restarts from the middle of it
until the rest is short, so that late positions are seen often (Matsuzaki, "Developing 2048 Player with
Backward Temporal Coherence Learning and Restart", ACG 2017). Where late boards have tables of their own,
a share of the games begins with a board at which an earlier one came to them (carousel shaping, in
Jaskowski's article as well), and a share of these is played by what is known of smaller tiles. A player that
has never continued past such boards values them by games that ended there, and avoids them. Threads share the
tables without locks: they are so large that two updates rarely meet.
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
from octofold_game.system.files import whole_file
from octofold_players.compiled.table_files import save_array
from octofold_players.ntuple.compaction import most_important
from octofold_players.ntuple.network import (
    FOUR_SIX_TUPLES,
    NTupleNetwork,
    mapped_array,
)
from octofold_players.ntuple.tuples import check_stages, check_tuples

from octofold_training.errors import TrainingError
from octofold_training.learners.ntuple_episodes import Buffers, Learning, learn
from octofold_training.run.curves import Curves, draw_curves
from octofold_training.run.folder import History, exclusive_folder
from octofold_training.run.progress import notice
from octofold_training.run.training_run import cooling

_CURVES = Curves({"recent_average": "Average score of the games that it learns from"})
SAVE_SECONDS = 300.0  # between saves: the tables are large
_STARTED = np.array([15_000, 300_000], np.float32)
"""Sums of errors and of their sizes, of entries that a run starts with: a rate of 0.05, until they learn."""
_NEVER = 1e30
"""Sum of the sizes of errors of an entry that learns no more: its rate is 0, whatever the errors."""
_REMEMBERED = 1e-3  # share of the error sums that a new stage inherits: rates are kept, but change quickly


@dataclass(frozen=True)
class NTupleOptions:
    """Options of one training run."""

    start: str = option("", "network that the tables of every stage begin with, as `--teacher`; none: zeros")
    tuples: tuple[tuple[int, ...], ...] = option(FOUR_SIX_TUPLES, "cells of each tuple, in rising order")
    first_tuples: int = option(4, "tuples that learn alone at first: fewer learn faster", minimum=1)
    first_moves: float = option(0.0, "moves before the remaining tuples join")
    stages: tuple[int, ...] = option((), "falling exponents: boards that hold them have tables of their own")
    stage_moves: float = option(0.0, "moves before late stages get tables of their own")
    prune_moves: float = option(
        0.0, "moves after which only the most important entries go on learning; the others read 0; 0: never"
    )
    prune_megabytes: float = option(19.0, "megabytes that compact tables of these entries take")
    moves: float = option(1e9, "moves that the whole run learns from, resumed parts included", minimum=1)
    late_share: float = option(0.5, "share of the games that begin where a late stage does", maximum=0.9)
    guided_share: float = option(0.0, "share of those that play as if their tiles were smaller", maximum=1)
    cool_down: float = option(0.0, "last share of the run, in which all rates fall to 0", maximum=1)
    threads: int = option(2, "threads that play and learn at once", minimum=1)
    seed: int = option(1, "seed of the spawns")

    def __post_init__(self) -> None:
        check_tuples(self.tuples)
        check_stages(self.stages)
        if 0 < self.prune_moves <= max(self.first_moves, self.stage_moves):
            raise ValueError(
                f"prune_moves is {self.prune_moves:,.0f}: it must be above first_moves, "
                f"{self.first_moves:,.0f}, and stage_moves, {self.stage_moves:,.0f}, or 0"
            )

    def shape(self, moves: float) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        """Return the tuples and the stages of a run that has learned from that many moves."""
        tuples = self.tuples if moves >= self.first_moves else self.tuples[: self.first_tuples]
        return tuples, self.stages if moves >= self.stage_moves else ()

    def warnings(self) -> list[str]:
        """Warnings: a line of text for each option that the run is too short for."""
        late = {
            "first_moves": (
                self.first_moves,
                len(self.tuples) > self.first_tuples,
                "only the first tuples learn",
            ),
            "stage_moves": (self.stage_moves, bool(self.stages), "no stage gets tables of its own"),
            "prune_moves": (self.prune_moves, self.prune_moves > 0, "all entries go on learning"),
        }
        return [
            f"{name} is {due:,.0f}, but the run has {self.moves:,.0f} moves: {effect}"
            for name, (due, matters, effect) in late.items()
            if matters and due >= self.moves
        ]

    def rates(self, moves: float) -> float:
        """Factor on all rates after that many moves: 1, and less in the cool-down."""
        return cooling(moves, self.moves, self.cool_down)

    def next_change(self, moves: float) -> float:
        """Return how many moves the run has when its shape or its rates change next, or when it ends.

        The rates fall in steps of a twentieth.
        """
        steps: list[float] = np.linspace(self.moves * (1 - self.cool_down), self.moves, 21).tolist()
        changes = (self.first_moves, self.stage_moves, self.prune_moves, *steps)
        return min(due for due in changes if due > moves)


@dataclass(frozen=True)
class NTupleProgress:
    """The progress of the last slice of training. Scores count games from their first move."""

    episodes: int
    games: int
    """Number of episodes that began with a first move."""
    moves: int
    seconds: float
    recent_average: float | None
    """Average score of these games; None if there are none."""
    best: int
    positions: int
    """Moves of the whole run."""


class _Counts(msgspec.Struct):
    """Progress of a saved run."""

    episodes: Annotated[int, msgspec.Meta(ge=0)]
    moves: Annotated[int, msgspec.Meta(ge=0)]
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    seed: int
    pruned: bool = False


class NTupleLearner:
    """Tables, their learning state and the games of each thread."""

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
        self.pruned = False

    def start(self, path: Path) -> None:
        """Take the values of a network, which are those of every stage if it has one; 0 is an unknown value.

        Raises:
            TrainingError: it has other tuples or stages.
            TableFileError: it cannot be read.
        """
        known, network = NTupleNetwork.load(path), self.network
        if known.tuples != network.tuples or known.stages not in ((), network.stages):
            raise TrainingError(
                f"{path}: tuples {known.tuples} and stages {known.stages}, and the run begins with tuples "
                f"{network.tuples} and stages {network.stages}; it starts from these, or from one stage"
            )
        values = known.values.reshape(len(known.stages) + 1, -1)
        entries = self._entries.reshape(len(network.stages) + 1, -1, 3)
        entries[:, :, 0] = values
        entries[:, :, 1:] = (values != 0)[:, :, None] * _STARTED

    @classmethod
    def resume(cls, options: NTupleOptions, folder: Path) -> NTupleLearner:
        """Continue from what `save` left in `folder`, with the tuples and stages of that time.

        Raises:
            TrainingError: the run had tuples or stages that those of `options` do not begin with, or another
                seed, or its counts are damaged.
            TableFileError: its network is damaged.
        """
        saved = NTupleNetwork.load(folder)
        if options.tuples[: len(saved.tuples)] != saved.tuples:
            raise TrainingError(f"{folder}: trained with tuples {saved.tuples}, asked for {options.tuples}")
        if options.stages[: len(saved.stages)] != saved.stages:
            raise TrainingError(f"{folder}: trained with stages {saved.stages}, asked for {options.stages}")
        learner = cls(options)
        entries = np.empty((len(saved.values), 3), np.float32)
        entries[:, 0] = saved.values
        entries[:, 1:] = mapped_array(folder / "coherence.npy", (len(saved.values), 2))
        learner._set_tables(saved.tuples, saved.stages, entries)
        try:
            state = msgspec.json.decode((folder / "learner.json").read_bytes(), type=_Counts)
        except OSError as error:
            raise TrainingError(f"{folder / 'learner.json'}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise TrainingError(
                f"{folder / 'learner.json'}: not a learner's counts ({error}): another version may have "
                "saved it; name another --state"
            ) from error
        learner.episodes, learner.moves, learner.seconds = state.episodes, state.moves, state.seconds
        learner.pruned = state.pruned
        if state.seed != options.seed:
            raise TrainingError(
                f"{folder}: was begun with seed {state.seed}, the recipe has seed {options.seed}; "
                "another run needs another --state"
            )
        for thread in learner._threads:
            thread.reseed(learner.moves)  # new spawns, not those of the start again
        return learner

    def _set_tables(
        self,
        tuples: tuple[tuple[int, ...], ...],
        stages: tuple[int, ...],
        entries: NDArray[np.float32],
    ) -> None:
        # Value, sum of errors, sum of their sizes: an update that has loaded one of them has them all.
        self._entries = entries
        self.network = NTupleNetwork(tuples, entries[:, 0], stages)

    def grow(self) -> None:
        """Take the tuples and stages that are due, unless the run has them; it loses none until told to.

        Tuples that join start at 0, so that nothing changes at first. The tables of a new stage start as
        those of the stage before, read as if each tile that leads to it were half as large: what is known of
        8192 is the best guess at what a first 16384 is worth.
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
            grown[stage, :, 1:] *= _REMEMBERED
        self._set_tables(
            tuples, stages, grown.reshape(-1, 3)
        )  # only now: what ends this halfway changes nothing

    def prune(self) -> None:
        """Keep the entries that `octofold-export` would keep, once this is due; the others read 0 for good.

        What still learns makes up for what reads 0, and loses little when it is packed.

        Raises:
            TrainingError: nothing fits the megabytes.
        """
        if self.pruned or not 0 < self.options.prune_moves <= self.moves:
            return
        notice("playing to see which entries matter")
        try:
            kept, _ = most_important(self.network, int(self.options.prune_megabytes * 1e6))
        except ValueError as error:
            raise TrainingError(str(error)) from error
        others = np.ones(len(self._entries), np.bool_)
        others[kept] = False
        self._entries[others] = (0, 0, _NEVER)
        self.pruned = True

    def save(self, folder: Path) -> None:
        """Write everything that `resume` needs; an interrupted save leaves the last one readable.

        All files are written beside the old ones before the first is replaced. Only a kill while they replace
        the old ones, one after the other, leaves files of two saves.
        """
        folder.mkdir(parents=True, exist_ok=True)
        state = {
            "episodes": self.episodes,
            "moves": self.moves,
            "seconds": round(self.seconds, 1),
            "seed": self.options.seed,
            "pruned": self.pruned,
        }
        # Where the disk is full, all stay as they were.
        with (
            whole_file(folder / "learner.json") as described,
            whole_file(folder / "coherence.npy") as partial,
        ):
            described.write_text(json.dumps(state) + "\n", encoding="utf-8")
            save_array(partial, self._entries[:, 1:])
            self.network.save(folder)

    def learn(self, moves: int) -> NTupleProgress:
        """Play and learn for at least `moves` moves over all threads."""
        start = time.perf_counter()
        self._stop[0] = False
        share = math.ceil(moves / len(self._threads))
        try:
            with ThreadPoolExecutor(len(self._threads)) as pool:
                try:
                    learning = [pool.submit(self._run, thread, share) for thread in self._threads]
                    wait(learning)
                finally:
                    self._stop[0] = True  # after Ctrl-C the threads end their episodes, which count
        finally:
            progress = self._count(time.perf_counter() - start)
        for each in learning:
            each.result()  # raises what its thread raised
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
        how = Learning(
            np.float32(options.rates(self.moves)),
            options.late_share,
            options.guided_share,
        )
        with thread.learning:
            learn(self._entries, self.network.layout, how, moves, self._stop, thread.buffers)


class _Thread:
    """A thread's buffers, and where its random numbers come from."""

    def __init__(self, seed: int, number: int) -> None:
        self.buffers = Buffers.empty()
        self.learning = threading.Lock()
        self._seed = [seed, number]
        self.reseed(0)

    def take_counts(self) -> NDArray[np.int64]:
        """Return what it has counted since, once it has stopped.

        A pool waits for no thread that Ctrl-C met at its start.
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
    """Learn from `options.moves` moves in all, resuming the run in `folder`; stop after `minutes`.

    `folder` also gets the history as JSON lines and the learning curve as `curves.png`. `report` is called
    about every ten seconds. Ctrl-C saves and is raised again.

    Raises:
        TrainingError: another process is training in `folder`, or it holds another network.
    """
    with exclusive_folder(folder):
        return _train(options, folder, report, minutes)


def _train(
    options: NTupleOptions,
    folder: Path,
    report: Callable[[NTupleLearner, NTupleProgress], None],
    minutes: float,
) -> NTupleLearner:
    resumed = (folder / "learner.json").exists()
    if not resumed and (folder / "values.npy").exists():
        raise TrainingError(f"{folder} holds a network but no learner.json; a run needs a folder of its own")
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
            learner.prune()
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
            f"the values are no longer finite numbers at {learner.moves:,} moves; {folder} keeps what was "
            "saved before"
        )
    learner.save(folder)
    draw_curves(history.reports, folder / "curves.png", _CURVES)
