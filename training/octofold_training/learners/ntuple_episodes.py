"""The compiled part of `ntuple_td`: each thread plays episodes and learns from them.

In guided games, moves are chosen as if the largest tiles were smaller. Guei, Chen and Wu, "Optimistic
Temporal Difference Learning for 2048" (IEEE Transactions on Games, 2022), call this tile downgrading and use
it when a network knows too little about the tiles on the board.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import OUTGROWN, POINTS, new_game, next_random, slide, spawn
from octofold_game.compiling import njit
from octofold_players.ntuple.network import best_move, fetch, stage_of

_LONGEST_EPISODE = 1 << 17  # maximum moves; a game that reaches 65536 takes about 60,000
_MOST_STAGES = 16
_KEPT = 1024  # number of remembered boards per late stage
_TRACE_DECAY = np.float32(0.5)
"""Lambda: the weight of the rest of the episode in a target."""
_SHORTEST_RESTART = 10  # minimum moves of an episode that is restarted from its middle
_U = np.uint64


class Learning(NamedTuple):
    """Options of play and learning, from the fields of `NTupleOptions`."""

    rates: np.float32
    """Factor of all learning rates."""
    late_share: float
    guided_share: float


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
    """[S, K]: the latest boards with which games entered each stage."""
    late_counts: NDArray[np.uint64]
    """[S]: number of games that entered each stage."""
    counts: NDArray[np.int64]
    """[5]: number of episodes, whole games and moves, sum of the whole games' scores, best score."""

    @classmethod
    def empty(cls) -> Buffers:
        """Return the buffers of a thread that has not played yet."""
        return cls(
            np.zeros(1, np.uint64),
            np.empty(_LONGEST_EPISODE, np.uint64),
            np.empty(_LONGEST_EPISODE, np.uint64),
            np.empty(_LONGEST_EPISODE, np.float32),
            np.empty((_MOST_STAGES, _KEPT), np.uint64),
            np.zeros(_MOST_STAGES, np.uint64),
            np.zeros(5, np.int64),
        )


@njit(cache=True, nogil=True)
def learn(entries, layout, how, moves, stop, buffers):
    """Play games, restart each from its middle, and learn, until `moves` moves are made or `stop` is set."""
    counts, random = buffers.counts, buffers.random
    indices = np.empty((4, 8 * len(layout.shifts)), np.uint64)
    own_rates = np.empty(8 * len(layout.shifts), np.float32)
    late = guided = np.float64(0)  # sums of the shares of late and guided games; at 1, such a game is due
    turn = 0  # late games begin in the late stages in rotation
    while counts[2] < moves and not stop[0]:
        # A stage may be dropped although the buffers still have its boards.
        late += how.late_share * (len(layout.stages) > 0 and buffers.late_counts[1] > 0)
        from_start = late < 1
        guide = False
        if from_start:
            board = new_game(random)
        else:
            late -= 1
            guided += how.guided_share
            guide = guided >= 1
            guided -= guide
            turn = turn % len(layout.stages) + 1
            board = _late_board(turn if buffers.late_counts[turn] > 0 else 1, buffers)
        while True:
            length, score, last = _play(board, guide, entries[:, 0], layout, buffers, indices)
            _learn_backwards(
                buffers.afterstates[:length],
                buffers.rewards,
                last,
                how.rates,
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
    """Return one of the latest boards with which games entered a stage."""
    kept = min(buffers.late_counts[stage], _U(_KEPT))
    return buffers.late_starts[stage, next_random(buffers.random) % kept]


@njit(cache=True, nogil=True)
def _play(board, guide, values, layout, buffers, indices):
    """Play from `board` to the end, and remember the boards with which the game entered a late stage.

    Returns the number of moves, the score, and the reward of a last move that makes too large a tile. The
    afterstate of that move has no value to learn.
    """
    length = 0
    score = 0
    last = 0
    stage = stage_of(board, layout.stages)
    while length < len(buffers.states):
        if guide:
            move, afterstate, reward = guided_move(board, values, layout, indices)
        else:
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
            buffers.late_starts[stage, buffers.late_counts[stage] % _U(_KEPT)] = board
            buffers.late_counts[stage] += _U(1)
    return length, score, last


@njit(cache=True, nogil=True)
def _learn_backwards(afterstates, rewards, last, rates, entries, layout, indices, own_rates):
    """Update the values of an episode's afterstates, from the last to the first.

    Two rows of `indices` alternate: while one is used, the other is prefetched. `last` is the reward of a
    final move whose tile is too large for a board, or 0.
    """
    values = entries[:, 0]
    target = np.float32(last)
    end = len(afterstates) - 1
    if end >= 0:
        fetch(afterstates[end], values, layout, indices[end & 1])
    for step in range(end, -1, -1):
        if step > 0:
            ahead = step - 1
            fetch(afterstates[ahead], values, layout, indices[ahead & 1])
        value = _update(entries, indices[step & 1], target, rates, own_rates)
        target = rewards[step] + (1 - _TRACE_DECAY) * value + _TRACE_DECAY * target


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _update(entries, indices, target, rates, own_rates):
    """Move the value of the afterstate at `indices` toward `target` and return it.

    `own_rates` `[T * 8] float32` is a work buffer. The tables are not written between the reads, so that the
    divisions overlap.
    """
    value = np.float32(0)
    for place, index in enumerate(indices):
        value += entries[index, 0]
        sizes = entries[index, 2]
        own_rates[place] = abs(entries[index, 1]) / sizes if sizes > 0 else np.float32(1)
    error = target - value
    size = abs(error)
    share = rates * error / np.float32(len(indices))
    for place, index in enumerate(indices):
        change = own_rates[place] * share
        entries[index, 0] += change
        entries[index, 1] += error
        entries[index, 2] += size
        value += change
    return value


@njit(cache=True, nogil=True)
def downgraded(board, exponent):
    """Halve large tiles of a packed board until all are below `exponent`, as far as possible.

    The largest tile and the tiles that follow it without a gap are halved together, so that different tiles
    stay different and keep their order. If this chain goes down to a 4, no tile is halved.
    """
    while True:
        held = 0
        for cell in range(16):
            held |= 1 << int(board >> _U(4 * cell) & _U(0xF))
        largest = 15
        while not held >> largest & 1:
            largest -= 1
        below = largest - 1
        while below > 0 and held >> below & 1:
            below -= 1
        if largest < exponent or below < 2:
            return board
        halved = _U(0)
        for cell in range(16):
            tile = board >> _U(4 * cell) & _U(0xF)
            halved |= (tile - _U(tile > _U(below))) << _U(4 * cell)
        board = halved


@njit(cache=True, nogil=True)
def guided_move(board, values, layout, indices):
    """Return the best move of the board downgraded to the first stage, or `best_move` if that is illegal."""
    move, _, _ = best_move(downgraded(board, np.int64(layout.stages[0])), values, layout, indices)
    if move >= 0:
        afterstate, reward = slide(board, move)
        if afterstate != board or reward >= OUTGROWN:
            return move, afterstate, reward
    return best_move(board, values, layout, indices)
