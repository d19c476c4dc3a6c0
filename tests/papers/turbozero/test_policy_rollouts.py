"""Rollouts by a network: which moves begin them, what changes no answer, and what ends them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game.contract.searches import Limits
from octofold_game.errors import OctofoldError
from octofold_game.rules import BoardError, legal_moves
from octofold_papers.turbozero.policy_rollouts import AnswerTimes, PolicyRollouts

OPEN = [7, 6, 5, 4, 1, 2, 3, 2, 0, 1, 2, 1, 0, 0, 1, 0]
ALONE, TOGETHER = AnswerTimes(1.0, 100.0, 100), AnswerTimes(1.0, 1.0, 300)
"""Of a network that takes as long for each board of a question, and of one that takes no longer for many."""
HOURS = 1e5


class Network:
    """Answers by the cells of a board, and notes how many boards each question had."""

    largest_exponent = 17

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self.questions: list[int] = []
        random = np.random.default_rng(4)
        self._policy = random.normal(0, 0.3, (16, 4)).astype(np.float32)
        self._value = random.normal(0, 0.3, 16).astype(np.float32)

    def __call__(self, output: str, boards: NDArray[np.uint8], /) -> NDArray[np.float32]:
        self.questions.append(len(boards))
        assert boards.max() <= self.largest_exponent
        if output == "value":
            return self.value(boards)
        weights = np.exp(self.logits(boards)) * legal_moves(boards)
        shares: NDArray[np.float32] = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)
        return shares

    def logits(self, boards: NDArray[np.uint8]) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = np.stack([(boards * row).sum(axis=1) for row in self._policy.T], axis=1)
        return rows

    def value(self, boards: NDArray[np.uint8]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = (boards * self._value).sum(axis=1)
        return found


class Told(Network):
    """One policy, and a value that is the number of empty cells."""

    def __init__(self, *policy: float) -> None:
        super().__init__()
        self._told = np.log(np.array(policy, np.float32))

    def logits(self, boards: NDArray[np.uint8]) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = np.repeat(self._told[None], len(boards), axis=0)
        return rows

    def value(self, boards: NDArray[np.uint8]) -> NDArray[np.float32]:
        empty: NDArray[np.float32] = (boards == 0).sum(axis=1).astype(np.float32)
        return empty


def search_of(network: Network | None = None, pace: AnswerTimes = ALONE, **options: float) -> PolicyRollouts:
    return PolicyRollouts(network or Network(), **{"rollouts": 40} | options, pace=pace)  # type: ignore[arg-type]


def test_what_else_is_asked_and_how_many_ask_change_no_answer(boards: NDArray[np.uint8]) -> None:
    whole = search_of().find(boards, Limits())
    running = legal_moves(boards).any(axis=1)
    assert (whole.moves >= 0).tolist() == running.tolist()
    assert whole.values is not None
    assert (np.isfinite(whole.values) == legal_moves(boards)).all()
    assert (
        np.where(np.isfinite(whole.values), whole.values, 0).sum(axis=1).tolist() == (40 * running).tolist()
    )
    assert whole.depth.tolist() == (3 * running).tolist()
    assert whole.positions.tolist() == (120 * running).tolist()
    others = [
        search_of(pace=TOGETHER).find(boards, Limits()),
        search_of(Network(threads=3)).find(boards, Limits(HOURS)),
        search_of(Network(threads=3), TOGETHER).find(boards, Limits(HOURS, np.zeros(1, np.uint8))),
    ]
    for search in (search_of(), search_of(pace=TOGETHER)):
        alone = [search.find(board[None], Limits()) for board in boards]
        others.append(type(whole)(*(np.concatenate(found) for found in zip(*alone, strict=True))))
    for other in others:
        for expected, found in zip(whole, other, strict=True):
            np.testing.assert_array_equal(expected, found)


def test_options_and_the_seed_change_the_rollouts(boards: NDArray[np.uint8]) -> None:
    moves = search_of().find(boards, Limits()).values
    assert moves is not None
    for options in ({"seed": 1}, {"depth": 2}, {"puct": 3.0}, {"rollouts": 41}):
        others = search_of(Network(), ALONE, **options).find(boards, Limits()).values
        assert others is not None
        assert not np.array_equal(others, moves)


@pytest.mark.parametrize("pace", [ALONE, TOGETHER])
def test_rollouts_begin_as_puct_says(pace: AnswerTimes) -> None:
    """Values depend on the first move alone: moving sideways leaves 13 empty cells, up and down 14."""
    board = np.array([[1] + [0] * 3 + [1] + [0] * 7 + [2] + [0] * 3], np.uint8)
    policy, c, rollouts = [0.1, 0.6, 0.1, 0.2], 2.0, 40
    found = search_of(Told(*policy), pace, rollouts=rollouts, depth=1, puct=c).find(board, Limits()).values
    legal = legal_moves(board)[0]
    values = np.array([13.0, 12.0, 13.0, 12.0])
    prior = np.where(legal, policy, 0) / np.array(policy)[legal].sum()
    counts = np.zeros(4)
    for rollout in range(rollouts):
        scores = values + c * prior * np.sqrt(rollout + 1) / (1 + counts)
        untried = legal & (counts == 0)
        if untried.any():
            counts[np.where(untried, prior, -np.inf).argmax()] += 1
        else:
            counts[np.where(legal, scores, -np.inf).argmax()] += 1
    assert found is not None
    assert found[0].tolist() == np.where(legal, counts, -np.inf).tolist()


@pytest.mark.parametrize("pace", [ALONE, TOGETHER])
@pytest.mark.parametrize("worth", [1.0, 2e6, 1e30])
def test_every_legal_move_begins_a_rollout_whatever_the_unit_of_the_values(
    pace: AnswerTimes, worth: float
) -> None:
    class Constant(Told):
        def value(self, boards: NDArray[np.uint8]) -> NDArray[np.float32]:
            return np.full(len(boards), worth, np.float32)

    board = np.array([[0] * 4 + [1, 2, 3, 4] + [0] * 8], np.uint8)
    moves = int(legal_moves(board).sum())
    found = search_of(Constant(0.4, 0.3, 0.2, 0.1), pace, rollouts=moves, depth=1).find(board, Limits())
    assert found.values is not None
    assert (found.values[0] == 1).sum() == moves


def test_a_move_that_loses_at_once_begins_few_rollouts() -> None:
    """Moving left leaves no merge, whatever spawns; moving up or right leaves one for certain."""
    board = np.array([[1, 2, 3, 4, 1, 1, 7, 8, 3, 4, 5, 6, 4, 5, 6, 5]], np.uint8)

    class Certain(Told):
        def value(self, boards: NDArray[np.uint8]) -> NDArray[np.float32]:
            return np.ones(len(boards), np.float32)

    found = search_of(Certain(1, 1, 1, 1), rollouts=60, depth=1).find(board, Limits())
    assert found.values is not None
    up, right, _, left = found.values[0]
    assert left * 3 < min(up, right)
    assert found.moves[0] in (0, 1)


def test_boards_share_questions_and_a_lone_board_asks_ahead() -> None:
    boards = np.array([OPEN] * 7, np.uint8)
    network = Network()
    search_of(network, rollouts=20).find(boards, Limits())
    assert network.questions == [7] * (1 + 20 * 3)
    network = Network()
    search_of(network, TOGETHER, rollouts=100).find(boards[:1], Limits())
    moves = int(legal_moves(boards[:1]).sum())
    assert network.questions[:4] == [1, *[300 // moves * moves] * 3]
    assert len(network.questions) == 1 + 3 * -(-100 // (300 // moves))


def test_long_questions_are_divided() -> None:
    network = Network()
    search_of(network, AnswerTimes(1.0, 8.0, 8), rollouts=1, depth=1).find(
        np.array([OPEN] * 20, np.uint8), Limits()
    )
    assert network.questions == [8, 8, 4] * 2
    network = Network(threads=2)
    search_of(network, AnswerTimes(1.0, 8.0, 8), rollouts=1, depth=1).find(
        np.array([OPEN] * 8, np.uint8), Limits()
    )
    assert network.questions == [4, 4] * 2


def test_a_search_that_is_ready_has_measured_the_network(boards: NDArray[np.uint8]) -> None:
    network = Network(threads=2)
    search = PolicyRollouts(network, rollouts=20)
    search.prepare()
    assert max(network.questions) >= 4
    found = search.find(boards, Limits())
    np.testing.assert_array_equal(found.values, search_of(rollouts=20).find(boards, Limits()).values)


def test_a_search_that_is_not_ready_measures_the_network_before_it_asks_about_many_boards() -> None:
    network = Network()
    PolicyRollouts(network, rollouts=1, depth=1).find(np.array([OPEN] * 5000, np.uint8), Limits())
    assert network.questions[0] == 1


def test_values_below_0_are_refused_before_the_first_search() -> None:
    class Costs(Told):
        def value(self, boards: NDArray[np.uint8]) -> NDArray[np.float32]:
            return np.full(len(boards), -2.5, np.float32)

    with pytest.raises(OctofoldError, match=r"at -2\.5: rollouts count a lost game as 0, so they need"):
        search_of(Costs(1, 1, 1, 1)).prepare()


def test_rollouts_without_time_try_every_move_once() -> None:
    for limits in (Limits(0.0), Limits(0.0, deeper=True)):
        found = search_of().find(np.array([OPEN] * 5, np.uint8), limits)
        assert (found.moves >= 0).all()
        assert found.values is not None
        assert (found.values[found.values >= 0] >= 1).all()


def test_rollouts_that_are_stopped_finish_no_search() -> None:
    boards, stop = np.array([OPEN] * 5, np.uint8), np.ones(1, np.uint8)
    for limits in (Limits(HOURS, stop), Limits(HOURS, stop, True)):
        found = search_of().find(boards, limits)
        assert found.moves.tolist() == [-1] * 5
        assert found.depth.tolist() == [0] * 5
        assert found.values is not None
        assert np.isneginf(found.values).all()


class Stopping(Network):
    """Lets somebody else act when the question of a number is asked."""

    def __init__(self, question: int, act: Callable[[], None]) -> None:
        super().__init__()
        self._question, self._act = question, act

    def __call__(self, output: str, boards: NDArray[np.uint8], /) -> NDArray[np.float32]:
        answer = super().__call__(output, boards)
        if len(self.questions) == self._question:
            self._act()
        return answer


def test_a_search_that_is_stopped_ends_with_what_its_rollouts_have_shown() -> None:
    board, stop = np.array([OPEN], np.uint8), np.zeros(1, np.uint8)
    network = Stopping(1 + 3 * 50, lambda: stop.__setitem__(0, 1))
    found = search_of(network, rollouts=10).find(board, Limits(HOURS, stop, deeper=True))
    assert len(network.questions) == 1 + 3 * 50  # not one more
    same = search_of(rollouts=50).find(board, Limits())
    for expected, ended in zip(same, found, strict=True):
        np.testing.assert_array_equal(expected, ended)


def test_a_search_of_an_hour_ends_when_another_thread_says_so() -> None:
    stop, begun, moves = np.zeros(1, np.uint8), threading.Event(), list[int]()
    search = search_of(Stopping(100, begun.set))

    def find() -> None:
        moves.extend(search.find(np.array([OPEN] * 3, np.uint8), Limits(HOURS, stop, deeper=True)).moves)

    thread = threading.Thread(target=find)
    thread.start()
    assert begun.wait(60)
    stop[0] = 1
    thread.join(60)
    assert not thread.is_alive()
    assert min(moves) >= 0


def test_a_time_that_does_not_suffice_for_every_move_finishes_nothing() -> None:
    board, stop = np.array([OPEN], np.uint8), np.zeros(1, np.uint8)
    moves = int(legal_moves(board).sum())
    for rollouts, finished in ((moves - 1, False), (moves, True)):
        network = Stopping(1 + 3 * rollouts, lambda: stop.__setitem__(0, 1))
        stop[0] = 0
        found = search_of(network).find(board, Limits(HOURS, stop))
        assert (found.moves[0] >= 0) == finished


def test_tiles_that_the_network_does_not_know_are_refused_or_counted_as_its_largest() -> None:
    network = Network()
    network.largest_exponent = 7
    with pytest.raises(BoardError, match="exponent 8 is not in 0 to 7"):
        search_of(network).find(np.array([[8] + [0] * 15], np.uint8), Limits())
    found = search_of(network).find(np.array([[7, 7, 7, 7] + [0] * 12], np.uint8), Limits())
    assert found.moves[0] >= 0


def test_a_rollout_makes_no_move_that_is_legal_only_for_the_largest_tile_that_the_network_knows() -> None:
    """Moved left, the first column is 8, 7, 8, 7, in which the network sees four equal tiles."""

    class Upward(Network):
        largest_exponent = 7

        def __call__(self, output: str, boards: NDArray[np.uint8], /) -> NDArray[np.float32]:
            is_moved_left = (boards[:, ::4] == 7).all(axis=1)
            moved_left = boards[is_moved_left]
            asked[output] += len(moved_left)
            if output == "value":
                return np.where(is_moved_left, np.float32(1), np.float32(0))
            above.append(int(moved_left[:, 1:4].any(axis=1).sum()))
            return np.repeat(np.array([[1, 0, 0, 0]], np.float32), len(boards), axis=0)

    asked, above = Counter[str](), list[int]()
    board = np.array([[7, 7, 0, 0, 7, 0, 0, 0] * 2], np.uint8)
    search_of(Upward(), rollouts=200, depth=2, puct=0).find(board, Limits())
    assert sum(above) > 1
    # Up changes nothing where the new tile is in the first row. So another move is made there.
    assert asked["value"] == asked["probabilities"] - sum(above)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"rollouts": 0}, "rollouts 0 is not in 1 to 1000000"),
        ({"depth": 101}, "depth 101 is not in 1 to 100"),
        ({"puct": float("nan")}, "puct nan is not in 0 to 1000000.0"),
        ({"seed": -1}, "seed -1 is not in 0 to 18446744073709551615"),
    ],
)
def test_an_option_that_is_out_of_range_is_one_line(option: dict[str, float], message: str) -> None:
    with pytest.raises(OctofoldError) as refusal:
        search_of(Network(), ALONE, **option)
    assert str(refusal.value) == message


def test_a_network_that_answers_no_numbers_fails_in_one_line() -> None:
    class Lost(Network):
        def value(self, boards: NDArray[np.uint8]) -> NDArray[np.float32]:
            return np.full(len(boards), np.nan, np.float32)

    with pytest.raises(OctofoldError, match=r"^the output 'value' of the network is not finite$"):
        search_of(Lost()).find(np.array([OPEN], np.uint8), Limits())
