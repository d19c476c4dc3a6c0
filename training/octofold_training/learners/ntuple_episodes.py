"""The compiled part of `ntuple_td`: each thread plays episodes and learns from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import OUTGROWN, POINTS, new_game, next_random, spawn
from octofold_game.compiling import njit
from octofold_players.ntuple.network import best_move, find_entries, stage_of

_LONGEST_EPISODE = 1 << 17  # maximum moves of an episode; a game that reaches 65536 takes about 60,000
_MOST_STAGES = 16
_BOARDS_PER_STAGE = 1024  # number of remembered boards at which games entered a late stage
_TRACE_DECAY = np.float32(0.5)
"""The lambda of TD(lambda): the weight of the rest of the episode in a target."""
_SHORTEST_RESTART = 10  # minimum moves of an episode that is restarted from its middle
_U = np.uint64


class Learning(NamedTuple):
    """The options that the compiled functions need."""

    rate_factor: np.float32
    """Factor of all learning rates: 1 until the cool-down, then less."""
    late_share: float
    """Share of the games that begin in a late stage."""


class Buffers(NamedTuple):
    """The arrays that a thread writes."""

    random: NDArray[np.uint64]
    """[1]: the state of the thread's random generator."""
    states: NDArray[np.uint64]
    """[L]: the boards of an episode."""
    afterstates: NDArray[np.uint64]
    """[L]: the afterstates of an episode."""
    rewards: NDArray[np.float32]
    """[L]: the rewards of an episode."""
    late_starts: NDArray[np.uint64]
    """[S, K]: for each stage, the latest K boards at which games entered it."""
    late_counts: NDArray[np.uint64]
    """[S]: for each stage, the number of games that entered it."""
    counts: NDArray[np.int64]
    """[5]: numbers of episodes, whole games and moves, then sum and maximum of the whole games' scores."""

    @classmethod
    def empty(cls) -> Buffers:
        """Return the buffers of a thread that has not played yet."""
        return cls(
            np.zeros(1, np.uint64),
            np.empty(_LONGEST_EPISODE, np.uint64),
            np.empty(_LONGEST_EPISODE, np.uint64),
            np.empty(_LONGEST_EPISODE, np.float32),
            np.empty((_MOST_STAGES, _BOARDS_PER_STAGE), np.uint64),
            np.zeros(_MOST_STAGES, np.uint64),
            np.zeros(5, np.int64),
        )


@njit(cache=True, nogil=True)
def learn(entries, layout, options, moves, stop, buffers):
    """Play games, restart each game from its middle, and learn from all episodes.

    Returns after a game, once `moves` moves are made or `stop` is set. `Learning` describes the `options`.
    """
    counts, random = buffers.counts, buffers.random
    indices = np.empty((4, 8 * len(layout.shifts)), np.uint64)
    own_rates = np.empty(8 * len(layout.shifts), np.float32)
    # Every game adds the share of late games to `late`. When `late` reaches 1, a late game is due. Late games
    # begin in each late stage in turn.
    late = np.float64(0)
    turn = 0
    while counts[2] < moves and not stop[0]:
        late += options.late_share * (buffers.late_counts[1] > 0)
        from_start = late < 1
        if from_start:
            board = new_game(random)
        else:
            late -= 1
            turn = turn % len(layout.stages) + 1
            board = _late_board(turn if buffers.late_counts[turn] > 0 else 1, buffers)
        while True:
            length, score, last = _play(board, entries[:, 0], layout, buffers, indices)
            _learn_backwards(
                buffers.afterstates[:length],
                buffers.rewards,
                last,
                options.rate_factor,
                entries,
                layout,
                indices,
                own_rates,
            )
            counts[0] += 1
            counts[2] += length
            if from_start:
                counts[1] += 1
                counts[3] += score
                counts[4] = max(counts[4], score)
            from_start = False
            if length < _SHORTEST_RESTART:
                break
            board = buffers.states[length // 2]


@njit(cache=True, nogil=True)
def _late_board(stage, buffers):
    """Return one of the latest boards at which games entered a stage."""
    kept = min(buffers.late_counts[stage], _U(_BOARDS_PER_STAGE))
    return buffers.late_starts[stage, next_random(buffers.random) % kept]


@njit(cache=True, nogil=True)
def _play(board, values, layout, buffers, indices):
    """Play from `board` to the end, and remember the boards at which the game entered a late stage.

    Returns the number of moves, the score, and the reward of a last move that makes a tile above 32768, or 0.
    The number does not include this last move. Its afterstate does not fit into a board and has no value.
    """
    length = 0
    score = 0
    last = 0
    stage = stage_of(board, layout.stages)
    while length < len(buffers.states):
        move, afterstate, reward = best_move(board, values, layout, indices)
        if move < 0:
            break
        if reward >= OUTGROWN:
            last = reward & POINTS
            score += last
            break
        buffers.states[length] = board
        buffers.afterstates[length] = afterstate
        buffers.rewards[length] = reward
        score += reward
        length += 1
        board = spawn(afterstate, buffers.random)
        reached = stage_of(board, layout.stages)
        if reached > stage:
            stage = reached
            buffers.late_starts[stage, buffers.late_counts[stage] % _U(_BOARDS_PER_STAGE)] = board
            buffers.late_counts[stage] += _U(1)
    return length, score, last


@njit(cache=True, nogil=True)
def _learn_backwards(afterstates, rewards, last, rate_factor, entries, layout, indices, own_rates):
    """Update the values of an episode's afterstates, from the last to the first.

    Two rows of `indices` alternate: an update uses the entries of one row, while the entries of the other
    row are prefetched. `last` is the reward of a final move that makes a tile above 32768, or 0.
    """
    values = entries[:, 0]
    target = np.float32(last)
    end = len(afterstates) - 1
    if end >= 0:
        find_entries(afterstates[end], values, layout, indices[end & 1])
    for step in range(end, -1, -1):
        if step > 0:
            ahead = step - 1
            find_entries(afterstates[ahead], values, layout, indices[ahead & 1])
        value = _coherence_update(entries, indices[step & 1], target, rate_factor, own_rates)
        target = rewards[step] + (1 - _TRACE_DECAY) * value + _TRACE_DECAY * target


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _coherence_update(entries, indices, target, rate_factor, own_rates):
    """Move the value of an afterstate toward `target`, by temporal coherence, and return the new value.

    `indices` are the afterstate's entries. `own_rates` `[T * 8] float32` is a work buffer for their learning
    rates. All entries are read before any is written, so that the processor overlaps the divisions.
    """
    value = np.float32(0)
    for place, index in enumerate(indices):
        value += entries[index, 0]
        sizes = entries[index, 2]
        own_rates[place] = abs(entries[index, 1]) / sizes if sizes > 0 else np.float32(1)
    error = target - value
    size = abs(error)
    share = rate_factor * error / np.float32(len(indices))
    for place, index in enumerate(indices):
        change = own_rates[place] * share
        entries[index, 0] += change
        entries[index, 1] += error
        entries[index, 2] += size
        value += change
    return value
