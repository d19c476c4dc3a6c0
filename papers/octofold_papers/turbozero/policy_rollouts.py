"""Rollouts of LazyZero: what a few moves of the policy lead to says which move begins best.

Many rollouts start from a board. Each legal move begins one, the most probable first; then always the
move with the largest

    Q(a) + c P(a) sqrt(N + 1) / (1 + N(a))

where P is the policy, N(a) says how many of the N rollouts so far began with a, and Q(a) is the mean of what
these found. The moves that follow are drawn from the policy. After `depth` moves in all the value head says
what the board is worth; a lost game counts 0. This is how LazyZero is evaluated (Marshall, turbozero, commit
c86ea47, https://github.com/lowrollr/turbozero); only, he makes the moves of equally many rollouts by chance.

A network answers many boards in little more time than one. So the boards of a call share each question. Where
few boards are asked about, rollouts are made ahead: the random numbers of a rollout depend on the board and
on its own number alone, and so does what it finds behind each first move. Those that are not chosen are
passed over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import OUTGROWN, count_empty, empty_cells, next_random, slide, unpack
from octofold_game.compiling import njit
from octofold_game.contract.graph import PROBABILITIES, VALUE
from octofold_game.contract.searches import Evaluator, Limits, SearchResult
from octofold_game.errors import OctofoldError
from octofold_game.rules import check_boards, legal_moves
from octofold_game.spawns import CHANCE_OF_FOUR, SpawnStream
from octofold_players.compiled.spread import parallel_for_each
from octofold_players.downgrading import pack_downgraded
from octofold_players.local_player import best_moves, check_option
from octofold_players.random_player import LARGEST_SEED

MOST_ROLLOUTS = 10**6

_U, _F = np.uint64, np.float32
_GAMMA = _U(0x9E3779B97F4A7C15)
"""Increment of `next_random` to a stream."""

_ASK_SECONDS = 0.005
"""Target time of a question: long against its overhead, short enough to end a search soon."""
_LARGEST_QUESTION = 4096
_TIMED = 3
"""Measurements of a question; the minimum counts, because disturbances only increase a time."""
_FEWEST = 4
"""Boards for which a thread of its own asks the network."""


class AnswerTimes(NamedTuple):
    """Answer times of a network: for one board, and for a large batch."""

    one: float
    """In seconds."""
    large: float
    """In seconds."""
    boards: int


class _Ended(Exception):
    """The time of a search is over, or somebody has stopped it."""


class PolicyRollouts:
    """Implements `octofold_game.contract.searches.Search` with the rollouts of a network.

    Args:
        network: answers `probabilities` and `value`.
        rollouts: before each move.
        depth: the moves of a rollout.
        puct: the weight c of the policy in the choice of a rollout's first move.
        seed: with the board, it determines the rollouts.
        cores: those that limits of time count.
        pace: how fast the network is, if it is known; it changes no answer.

    Raises:
        OptionError: a number is out of range.
    """

    value_unit = "rollouts"

    def __init__(
        self,
        network: Evaluator,
        *,
        rollouts: int = 500,
        depth: int = 3,
        puct: float = 1.0,
        seed: int = 0,
        cores: int = 1,
        pace: AnswerTimes | None = None,
    ) -> None:
        check_option("rollouts", rollouts, 1, MOST_ROLLOUTS)
        check_option("depth", depth, 1, 100)
        check_option("puct", puct, 0, 1e6)
        check_option("seed", seed, 0, LARGEST_SEED)
        self.largest_exponent = network.largest_exponent
        self._network = network
        self._rollouts, self._depth, self._puct, self._cores = rollouts, depth, puct, cores
        self._stream = SpawnStream(seed)
        self._pace = pace

    def prepare(self) -> None:
        """Compile all code, and measure how fast the network answers.

        Raises:
            OctofoldError: the network fails, or has a negative value for a board that is nearly empty.
        """
        self._pace = self._measured()
        boards = np.zeros((2, 16), np.uint8)
        boards[:, :4] = 1, 2, 3, 4
        value = float(self._answer(VALUE.name, pack_downgraded(boards))[0])
        if value < 0:
            raise OctofoldError(
                f"the network values the board {boards[0].tolist()} at {value:g}: rollouts count a lost game "
                "as 0, so they need values that are positive, such as the moves to come"
            )
        self.find(boards, Limits())

    def find(self, boards: NDArray[np.uint8], limits: Limits, /) -> SearchResult:
        """As `Search.find`.

        Raises:
            BoardError: a board is malformed or has an exponent that the network does not know.
            OctofoldError: the network lacks an output, or answers with numbers that are not finite.
        """
        return self.find_packed(pack_downgraded(check_boards(boards, self.largest_exponent)), limits)

    def find_packed(self, boards: NDArray[np.uint64], limits: Limits) -> SearchResult:
        """`find` for 64-bit boards `[N]`."""
        end = time.monotonic() + limits.seconds * max(1.0, len(boards) / self._cores)
        legal = np.asarray(legal_moves(unpack(boards)))
        running = np.flatnonzero(legal.any(axis=1))
        values = np.full((len(boards), 4), -np.inf, np.float32)
        depths, positions = np.zeros(len(boards), np.uint8), np.zeros(len(boards), np.int64)
        most = MOST_ROLLOUTS if limits.deeper else self._rollouts
        search = _Rollouts(boards[running], legal[running], self._stream, self._depth, self._puct)

        def ask(output: str, asked: NDArray[np.uint64]) -> NDArray[np.float32]:
            is_first = search.made < 4  # until every move has been tried, there is no answer
            return self._ask(output, asked, math.inf if is_first else end, limits.stop)

        try:
            if len(running):
                self._pace = self._pace or self._measured()  # first: it says how large a question may be
            search.begin(ask)
            while len(running) and search.made < most:
                search.go_on(ask, min(self._ahead(search), most - search.made))
        except _Ended:
            pass
        tried = ((search.visits > 0) | ~search.legal).all(axis=1)
        is_done = tried | (search.made >= most)
        values[running[is_done]] = np.where(search.legal, search.visits, -np.inf)[is_done]
        depths[running[is_done]] = self._depth
        positions[running] = search.made * self._depth
        return SearchResult(best_moves(values), values, depths, positions)

    def _ahead(self, search: _Rollouts) -> int:
        """Number of rollouts that begin with every legal move; 0: a single rollout by the chosen move."""
        pace = self._pace
        assert pace is not None
        boards, moves = len(search.boards), int(search.legal.sum())
        rollouts = pace.boards // moves
        each = (pace.large - pace.one) / max(1, pace.boards - 1)
        return rollouts if rollouts * (pace.one + each * boards) > pace.large else 0

    def _measured(self) -> AnswerTimes:
        self._network(PROBABILITIES.name, np.zeros((1, 16), np.uint8))
        seconds = [self._seconds(1)]
        boards = 1
        fewest = _FEWEST * self._network.threads
        while boards < fewest or (boards < _LARGEST_QUESTION and seconds[-1] < 0.7 * _ASK_SECONDS):
            boards *= 2
            self._seconds(boards)  # the first time takes longer
            seconds.append(self._seconds(boards))
        return AnswerTimes(seconds[0], seconds[-1], boards)

    def _seconds(self, boards: int) -> float:
        """Seconds of a question."""
        asked, taken = np.zeros(boards, np.uint64), []
        for _ in range(_TIMED):
            began = time.perf_counter()
            self._answer(VALUE.name, asked)
            taken.append(time.perf_counter() - began)
        return min(taken)

    def _ask(
        self, output: str, boards: NDArray[np.uint64], end: float, stop: NDArray[np.uint8] | None
    ) -> NDArray[np.float32]:
        """An output for 64-bit boards `[N]`, by questions that are not too long.

        Raises:
            _Ended: the time is over, or the search was stopped.
        """
        assert self._pace is not None
        most = self._pace.boards
        answers = []
        for start in range(0, len(boards), most):
            if (stop is not None and stop[0]) or time.monotonic() >= end:
                raise _Ended
            answers.append(self._answer(output, boards[start : start + most]))
        answer = answers[0] if len(answers) == 1 else np.concatenate(answers)
        if not np.isfinite(answer).all():
            raise OctofoldError(f"the output {output!r} of the network is not finite")
        return answer

    def _answer(self, output: str, boards: NDArray[np.uint64]) -> NDArray[np.float32]:
        """An output for boards `[N]`, which the threads share."""
        rows = unpack(boards)
        np.minimum(rows, self.largest_exponent, out=rows)  # a rollout may make larger tiles
        parts = min(self._network.threads, len(rows) // _FEWEST)
        if parts < 2:
            return self._network(output, rows)
        pieces = np.array_split(rows, parts)
        answers: list[NDArray[np.float32]] = [rows] * parts  # type: ignore[list-item]  # all are replaced

        def fill(part: int) -> None:
            answers[part] = self._network(output, pieces[part])

        parallel_for_each(fill, parts, self._network.threads)
        return np.concatenate(answers)


Ask = Callable[[str, NDArray[np.uint64]], NDArray[np.float32]]


class _Rollouts:
    """The rollouts of running games.

    Attributes:
        boards: `[N]`, of 64 bits.
        legal: their legal moves `[N, 4]`.
        visits: how many rollouts have begun with each move `[N, 4] float32`.
        made: how many rollouts there were from each board.
    """

    def __init__(
        self,
        boards: NDArray[np.uint64],
        legal: NDArray[np.bool_],
        stream: SpawnStream,
        depth: int,
        puct: float,
    ) -> None:
        self.boards, self.legal = boards, legal
        self.visits = np.zeros((len(boards), 4), np.float32)
        self.made = 0
        self._totals = np.zeros_like(self.visits)
        self._prior = self.visits
        self._streams = stream.states(boards)
        self._depth, self._puct = depth, puct
        self._numbers = 2 + 6 * (depth - 1)
        """Random numbers of a rollout."""

    def begin(self, ask: Ask) -> None:
        """Ask for the policy of the boards."""
        if len(self.boards):
            self._prior = ask(PROBABILITIES.name, self.boards)

    def go_on(self, ask: Ask, ahead: int) -> None:
        """Make more rollouts from each board; with 0, a single one, by the chosen move only."""
        if ahead:
            board, number, move = np.nonzero(np.repeat(self.legal[:, None], ahead, axis=1))
        else:
            board = np.arange(len(self.boards))
            number = np.zeros_like(board)
            move = np.empty_like(board)
            _choose_all(self._prior, self.legal, self.visits, self._totals, self.made, self._puct, move)
        first = (self.made + number).astype(np.uint64) * _U(self._numbers)
        worth = self._worth(ask, self.boards[board], move.copy(), self._streams[board] + first * _GAMMA)
        found = np.zeros((len(self.boards), ahead or 1, 4), np.float32)
        found[board, number, move] = worth
        _settle(self._prior, self.legal, self.visits, self._totals, self.made, self._puct, found)
        self.made += ahead or 1

    def _worth(
        self, ask: Ask, boards: NDArray[np.uint64], moves: NDArray[np.int64], streams: NDArray[np.uint64]
    ) -> NDArray[np.float32]:
        """Values of rollouts from boards `[M]` that begin with moves `[M]`; overwrites all three arrays."""
        _advance(boards, moves, streams)
        for _ in range(self._depth - 1):
            _draw(ask(PROBABILITIES.name, boards), boards, streams, moves)
            _advance(boards, moves, streams)
        worth = ask(VALUE.name, boards)
        return np.where(_running(boards), worth, _F(0))


@njit(cache=True, nogil=True)
def _settle(prior, legal, visits, totals, made, puct, found):
    """Add the chosen moves of rollouts `[N, K, 4]` to `visits` and `totals`."""
    for n in range(len(prior)):
        for number in range(found.shape[1]):
            move = _chosen(prior[n], legal[n], visits[n], totals[n], made + number, puct)
            visits[n, move] += _F(1)
            totals[n, move] += found[n, number, move]


@njit(cache=True, nogil=True)
def _choose_all(prior, legal, visits, totals, made, puct, moves):
    for n in range(len(prior)):
        moves[n] = _chosen(prior[n], legal[n], visits[n], totals[n], made, puct)


@njit(cache=True, nogil=True)
def _chosen(prior, legal, visits, totals, made, puct):
    """The move that the next rollout begins with."""
    factor = _F(puct * math.sqrt(made + 1))
    best, chosen, is_first = _F(-np.inf), -1, False
    for move in range(4):
        if legal[move]:
            untried = visits[move] == 0
            if untried:
                score = prior[move]
            else:
                score = totals[move] / visits[move] + factor * prior[move] / (_F(1) + visits[move])
            # Values may be of any unit: no score is more than that of a move without a rollout.
            if chosen < 0 or (untried and not is_first) or (untried == is_first and score > best):
                best, chosen, is_first = score, move, untried
    return chosen


@njit(cache=True, nogil=True)
def _advance(boards, moves, streams):
    """Make moves `[M]` on boards `[M]`, and spawn; lost boards stay."""
    for n in range(len(boards)):
        afterstate, _ = slide(boards[n], moves[n])
        stream = streams[n : n + 1]
        place, tile = _uniform(stream), _uniform(stream)
        empty = empty_cells(afterstate)
        for _ in range(np.int64(place * _F(count_empty(afterstate)))):
            empty &= empty - _U(1)
        exponent = _U(2) if tile < _F(CHANCE_OF_FOUR) else _U(1)
        boards[n] = afterstate | exponent * (empty & (~empty + _U(1)))


@njit(cache=True, nogil=True)
def _draw(probabilities, boards, streams, moves):
    """Draw legal moves `[M]` of boards `[M]` with these probabilities `[M, 4]`; lost boards keep theirs."""
    for n in range(len(moves)):
        best = -1.0
        for move in range(4):
            # The first of exponential waiting times with these rates is a draw with these probabilities.
            wait = -math.log(max(np.float64(_uniform(streams[n : n + 1])), 1e-30))
            haste = probabilities[n, move] / wait
            # The network may have seen smaller tiles, which merge where these do not.
            if haste > best and _is_legal(boards[n], move):
                best, moves[n] = haste, move


@njit(cache=True, nogil=True)
def _running(boards):
    """Whether a move is legal on each of boards `[M]`."""
    found = np.empty(len(boards), np.bool_)
    for n in range(len(boards)):
        found[n] = False
        for move in range(4):
            found[n] |= _is_legal(boards[n], move)
    return found


@njit(cache=True, nogil=True)
def _is_legal(board, move):
    afterstate, reward = slide(board, move)
    return afterstate != board or reward >= OUTGROWN


@njit(cache=True, nogil=True)
def _uniform(stream):
    """The next number of a stream `[1]`, from 0 up to but not 1: float32 has 24 binary digits."""
    return _F(next_random(stream) >> _U(40)) * _F(2.0**-24)
