"""Temporal-coherence learning of n-tuple networks by self-play: how the teacher is made.

Each episode is played greedily, then learned from its last afterstate back to its first:

    s0 --(a0, r0)--> s0' --(spawn)--> s1 --(a1, r1)--> s1' ...      target of s0': r1 + (1-l) V(s1') + l G1

with G1 the target of s1' and l lambda. Every table entry has its own rate |E| / A from the sums of its errors
and of their sizes (temporal coherence; Beal and Smith 1999, for 2048 Jaskowski, "Mastering 2048 with
Delayed Temporal Coherence Learning", 2016). After an episode the next one restarts from the middle of it
until the rest is short, so that late positions are seen often (Matsuzaki, "Developing 2048 Player with
Backward Temporal Coherence Learning and Restart", ACG 2017). Threads share the tables without locks: they
are so large that two updates rarely meet.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import njit
from octofold_game.bitboards import OUTGROWN, POINTS, new_game, spawn
from octofold_game.files import whole_file, write_text
from octofold_players.ntuple import (
    FOUR_SIX_TUPLES,
    NTupleFileError,
    NTupleNetwork,
    best_move,
    fetch,
    load_array,
    save_array,
    total,
)

from octofold_training.curves import Curves, draw_curves
from octofold_training.history import History
from octofold_training.options import option

_CURVES = Curves({"recent_average": "Average score of the games that it learns from"})
_LONGEST_EPISODE = 1 << 17  # moves; a game that reaches 65536 takes about 60,000
_U = np.uint64


@dataclass(frozen=True)
class NTupleOptions:
    """Options of one training run."""

    tuples: tuple[tuple[int, ...], ...] = option(FOUR_SIX_TUPLES, "cells of each tuple, in rising order")
    first_tuples: int = option(4, "tuples that learn alone at first: fewer learn faster", minimum=1)
    first_moves: float = option(0.0, "moves of the run after which the others join them")
    moves: float = option(1e9, "moves that the whole run learns from, resumed parts included")
    trace_decay: float = option(0.5, "lambda: share of the target from the rest of the episode")
    shortest_restart: int = option(10, "moves: a shorter episode is not restarted from its middle", minimum=2)
    threads: int = option(2, "threads that play and learn at once", minimum=1)
    seed: int = option(1, "of the spawns")


@dataclass(frozen=True)
class NTupleProgress:
    """What the last slice of training did. Scores are those of games played from their first move."""

    episodes: int
    moves: int
    seconds: float
    recent_average: float | None
    "None if no such game ended"
    best: int
    positions: int
    "moves of the whole run"


class NTupleLearner:
    """Tables, their learning state and the games of each thread."""

    def __init__(self, options: NTupleOptions) -> None:
        self.options = options
        alone = options.first_tuples if options.first_moves else None
        self._hold(options.tuples[:alone])
        self._threads = [_Thread(options.seed, number) for number in range(options.threads)]
        self._stop = np.zeros(1, np.bool_)
        self.episodes = 0
        self.moves = 0
        self.seconds = 0.0

    @classmethod
    def resume(cls, options: NTupleOptions, folder: Path) -> NTupleLearner:
        """Go on from what `save` left in `folder`, with the tuples that the run had by then.

        Raises `NTupleFileError` if the run had tuples that `options` does not begin with, or a file of it is
        damaged.
        """
        saved = NTupleNetwork.load(folder)
        if options.tuples[: len(saved.tuples)] != saved.tuples:
            raise NTupleFileError(f"{folder}: trained with tuples {saved.tuples}, asked for {options.tuples}")
        learner = cls(options)
        learner._hold(saved.tuples)
        learner._entries[:, 0] = saved.values
        learner._entries[:, 1:] = load_array(folder / "coherence.npy", (len(saved.values), 2))
        try:
            state = json.loads((folder / "learner.json").read_text())
            learner.episodes, learner.moves = state["episodes"], state["moves"]
            learner.seconds = state["seconds"]
        except (OSError, ValueError, KeyError) as error:
            raise NTupleFileError(f"{folder / 'learner.json'}: not a learner's counts ({error})") from error
        for thread in learner._threads:
            thread.reseed(learner.moves)  # new spawns, not those of the start again
        return learner

    def _hold(self, tuples: tuple[tuple[int, ...], ...]) -> None:
        # Value, sum of errors, sum of their sizes: an update that has loaded one of them has them all.
        self._entries = np.zeros((NTupleNetwork.size(tuples), 3), np.float32)
        self.network = NTupleNetwork(tuples, self._entries[:, 0])

    def grow(self) -> None:
        """Let all tuples learn. Those that join start at 0, so that nothing changes at first."""
        learned = self._entries
        self._hold(self.options.tuples)
        self._entries[: len(learned)] = learned

    def save(self, folder: Path) -> None:
        """Write everything that `resume` needs; an interrupted save leaves the last one readable."""
        folder.mkdir(parents=True, exist_ok=True)
        state = {"episodes": self.episodes, "moves": self.moves, "seconds": round(self.seconds, 1)}
        # The larger file is written before any is replaced: where the disk is full, all stay as they were.
        with whole_file(folder / "coherence.npy") as partial:
            save_array(partial, self._entries[:, 1:])
            self.network.save(folder)
        write_text(folder / "learner.json", json.dumps(state) + "\n")

    def learn(self, moves: int) -> NTupleProgress:
        """Play and learn for at least `moves` moves over all threads."""
        start = time.perf_counter()
        self._stop[0] = False
        share = moves // len(self._threads)
        try:
            with ThreadPoolExecutor(len(self._threads)) as pool:
                learning = [pool.submit(self._run, thread, share) for thread in self._threads]
                try:
                    wait(learning)
                finally:
                    self._stop[0] = True  # after Ctrl-C the threads end their episodes, which count
        finally:
            progress = self._count(time.perf_counter() - start)
        for each in learning:
            each.result()  # raises what its thread raised
        return progress

    def _count(self, seconds: float) -> NTupleProgress:
        counts = np.array([thread.counts for thread in self._threads])
        for thread in self._threads:
            thread.counts[:] = 0
        episodes, played, learned, total = counts[:, :4].sum(axis=0).tolist()
        self.episodes += episodes
        self.moves += learned
        self.seconds += seconds
        average, best = total / played if played else None, int(counts[:, 4].max())
        return NTupleProgress(episodes, learned, seconds, average, best, self.moves)

    def _run(self, thread: _Thread, moves: int) -> None:
        _learn(
            self._entries,
            *self.network.runs,
            np.float32(self.options.trace_decay),
            self.options.shortest_restart,
            moves,
            self._stop,
            thread.random,
            thread.states,
            thread.afterstates,
            thread.rewards,
            thread.counts,
        )


class _Thread:
    """Buffers of one thread: an episode, a random state, and what it counted."""

    def __init__(self, seed: int, number: int) -> None:
        self.random = np.zeros(1, np.uint64)
        self._seed = [seed, number]
        self.reseed(0)
        self.states = np.empty(_LONGEST_EPISODE, np.uint64)
        self.afterstates = np.empty(_LONGEST_EPISODE, np.uint64)
        self.rewards = np.empty(_LONGEST_EPISODE, np.float32)
        self.counts = np.zeros(5, np.int64)  # episodes, whole games, moves, their scores, best score

    def reseed(self, moves: int) -> None:
        self.random[:] = np.random.SeedSequence([*self._seed, moves]).generate_state(1, np.uint64)


@njit(cache=True, nogil=True)
def _learn(
    entries,
    shifts,
    masks,
    trace_decay,
    shortest_restart,
    moves,
    stop,
    random,
    states,
    afterstates,
    rewards,
    counts,
):
    """Play whole games, restarts included, until `counts` holds at least `moves` moves or `stop` is set."""
    values = entries[:, 0]
    symmetric = np.empty(8, np.uint64)
    indices = np.empty((4, 8 * shifts.shape[0]), np.uint64)
    while counts[2] < moves and not stop[0]:
        board = new_game(random)
        from_start = True
        while True:
            length = 0
            score = 0
            while length < len(states):
                move, afterstate, reward = best_move(board, values, shifts, masks, symmetric, indices)
                if move < 0:
                    break
                if reward >= OUTGROWN:
                    score += reward & POINTS
                    break
                states[length] = board
                afterstates[length] = afterstate
                rewards[length] = reward
                score += reward
                length += 1
                board = spawn(afterstate, random)
            _learn_backwards(
                afterstates[:length], rewards, trace_decay, entries, shifts, masks, symmetric, indices
            )
            counts[0] += 1
            counts[2] += length
            if from_start:
                counts[1] += 1
                counts[3] += score
                counts[4] = max(counts[4], score)
            from_start = False
            if length < shortest_restart:
                break
            board = states[length // 2]


@njit(cache=True, nogil=True)
def _learn_backwards(afterstates, rewards, trace_decay, entries, shifts, masks, symmetric, indices):
    """Learn one episode from its end; two rows of `indices` take turns, so that one is loaded ahead."""
    values = entries[:, 0]
    target = np.float32(0)
    last = len(afterstates) - 1
    if last >= 0:
        fetch(afterstates[last], values, shifts, masks, symmetric, indices[last & 1])
    for step in range(last, -1, -1):
        if step > 0:
            ahead = step - 1
            fetch(afterstates[ahead], values, shifts, masks, symmetric, indices[ahead & 1])
        value = _update(entries, indices[step & 1], target)
        target = rewards[step] + (1 - trace_decay) * value + trace_decay * target


@njit(cache=True, nogil=True)
def _update(entries, indices, target):
    """Move the value of the afterstate at `indices` towards `target` and return it."""
    value = total(entries[:, 0], indices)
    error = target - value
    size = abs(error)
    share = error / np.float32(len(indices))
    for index in indices:
        errors = entries[index, 1]
        sizes = entries[index, 2]
        rate = abs(errors) / sizes if sizes > 0 else np.float32(1)
        entries[index, 0] += rate * share
        value += rate * share
        entries[index, 1] = errors + error
        entries[index, 2] = sizes + size
    return value


def train(
    options: NTupleOptions,
    folder: Path,
    report: Callable[[NTupleLearner, NTupleProgress], None],
    minutes: float = math.inf,
    save_every_seconds: float = 300.0,
) -> NTupleLearner:
    """Learn from `options.moves` moves in all, resuming what `folder` holds; stop after `minutes`.

    `folder` also gets the history as JSON lines and the learning curve as `curves.png`. `report` is called
    about every ten seconds. Ctrl-C saves and is raised again.
    """
    resumed = (folder / "learner.json").exists()
    learner = NTupleLearner.resume(options, folder) if resumed else NTupleLearner(options)
    history = History(folder / "history.jsonl", learner.moves)
    saved = learner.seconds
    end = learner.seconds + minutes * 60
    slice_moves = 200_000
    try:
        while learner.moves < options.moves and learner.seconds < end:
            if learner.moves >= options.first_moves and learner.network.tuples != options.tuples:
                learner.grow()
            due = options.moves if learner.network.tuples == options.tuples else options.first_moves
            progress = learner.learn(min(slice_moves, math.ceil(due - learner.moves)))
            left = end - learner.seconds
            slice_moves = int(progress.moves / progress.seconds * min(10.0, max(left, 0.1)))
            report(learner, progress)
            history.append(progress)
            if learner.seconds - saved > save_every_seconds:
                _save(learner, history, folder)
                saved = learner.seconds
    finally:
        _save(learner, history, folder)
    return learner


def _save(learner: NTupleLearner, history: History, folder: Path) -> None:
    learner.save(folder)
    draw_curves(history.reports, folder / "curves.png", _CURVES)
