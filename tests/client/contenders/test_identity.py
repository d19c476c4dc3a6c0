"""The digest of a player in this process: the same for the same player, another for any other."""

import functools
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client.contenders.identity import digest
from octofold_game.rules import legal_moves

PREFERRED = [0, 1, 2, 3]


class Preferring:
    """The first legal move of an order of moves."""

    name = "preferring"

    def __init__(self, order: Any) -> None:
        self.order = order

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        order = np.array(self.order)
        moves: NDArray[np.int8] = order[legal_moves(boards)[:, order].argmax(axis=1)].astype(np.int8)
        return moves


class Elsewhere(Preferring):
    """The same with a step in between."""

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        return super().next_moves(boards.copy())


@dataclass(frozen=True)
class Biased:
    bias: float = 0.1
    name: str = "biased"

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        moves: NDArray[np.int8] = legal_moves(boards).argmax(axis=1).astype(np.int8)
        return moves


def test_players_that_are_made_alike_have_the_same_digest() -> None:
    assert digest(Preferring([0, 1, 2, 3])) == digest(Preferring([0, 1, 2, 3])) is not None
    assert digest(Biased(0.1)) == digest(Biased()) is not None
    assert digest(Preferring({"b": 1, "a": 2})) == digest(Preferring({"a": 2, "b": 1}))
    assert digest(Preferring({"x", "y", "z"})) == digest(Preferring({"z", "y", "x"}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Preferring([0, 1, 2, 3]), Preferring([1, 0, 2, 3])),
        (Preferring([0, 1]), Elsewhere([0, 1])),
        (Biased(0.1), Biased(0.9)),
        (Preferring(np.zeros(3)), Preferring(np.array([0.0, 0.0, 1e-9]))),
        (Preferring(np.zeros(3)), Preferring(np.zeros(3, np.float32))),
        (Preferring(lambda: 1), Preferring(lambda: 2)),
        (Preferring(functools.partial(max, 1)), Preferring(functools.partial(max, 2))),
        (Preferring(np.random.default_rng(1)), Preferring(np.random.default_rng(2))),
        (Preferring(Path("a")), Preferring(Path("b"))),
        (Preferring(Biased(0.1)), Preferring(Biased(0.2))),
        (Preferring(1), Preferring(1.0)),
    ],
)
def test_another_option_or_policy_is_another_digest(one: object, other: object) -> None:
    assert digest(one) is not None
    assert digest(other) is not None
    assert digest(one) != digest(other)


def inheriting(base: type) -> type:
    class Inheriting(base):  # type: ignore[misc]
        pass

    return Inheriting


def with_default(limit: int) -> Any:
    def rule(number: int, limit: int = limit) -> bool:
        return number < limit

    return rule


def with_named_default(limit: int) -> Any:
    def rule(number: int, *, limit: int = limit) -> bool:
        return number < limit

    return rule


class Weighted:
    """A decorator that looks like its function but is not."""

    def __init__(self, function: Any, weight: int) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.weight = weight

    def __call__(self, number: int) -> int:
        result: int = self.weight * self.function(number)
        return result


def weighted(weight: int) -> Any:
    return functools.partial(Weighted, weight=weight)(same)


def same(number: int) -> int:
    return number


@pytest.mark.parametrize(
    ("made", "one", "other"),
    [
        (inheriting, Preferring, Elsewhere),
        (with_default, 1, 2),
        (with_named_default, 1, 2),
        (weighted, 1, 2),
    ],
)
def test_base_classes_default_values_and_decorators_count(made: Any, one: Any, other: Any) -> None:
    assert digest(Preferring(made(one))) == digest(Preferring(made(one))) is not None
    assert digest(Preferring(made(one))) != digest(Preferring(made(other)))


def test_the_lines_that_an_exception_handler_covers_count() -> None:
    def inside(numbers: list[int]) -> int:
        try:
            numbers.pop()
        except IndexError:
            return 0
        return 1

    covered = inside.__code__
    bare = covered.replace(co_exceptiontable=b"")
    players = [Preferring(FunctionType(code, globals())) for code in (covered, bare)]
    assert digest(players[0]) is not None
    assert digest(players[0]) != digest(players[1])


def test_a_function_or_value_that_the_code_names_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def order() -> list[int]:
        return PREFERRED

    before = digest(Preferring(order))
    assert before is not None
    monkeypatch.setitem(globals(), "PREFERRED", [3, 2, 1, 0])
    assert digest(Preferring(order)) not in (None, before)


def test_what_a_player_has_cached_does_not_count() -> None:
    class Caching(Preferring):
        @functools.cache  # noqa: B019
        def known(self, board: bytes) -> int:
            return len(board)

    player = Caching([0])
    before = digest(player)
    player.known(b"a board")
    assert digest(player) == before is not None


def test_the_weights_of_a_network_count() -> None:
    torch = pytest.importorskip("torch")

    def made(seed: int) -> Preferring:
        torch.manual_seed(seed)
        return Preferring(torch.nn.Linear(4, 2))

    assert digest(made(1)) == digest(made(1)) is not None
    assert digest(made(1)) != digest(made(2))


def test_a_player_that_holds_what_cannot_be_looked_into_has_none() -> None:
    assert digest(Preferring(threading.Lock())) is None


def test_the_digest_is_the_same_in_another_process_and_changes_with_the_source(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    source = (
        "from octofold_client.contenders.identity import digest\n"
        "def best(boards):\n    return boards[:, 0]\n"
        "class Mine:\n    name = 'mine'\n    seen = {'a', 'b', 'c'}\n"
        "    def next_moves(self, boards):\n        return best(boards)\n"
        "print(digest(Mine()))\n"
    )

    def printed(text: str, hash_seed: str = "0") -> str:
        script.write_text(text)
        return subprocess.run(
            [sys.executable, script],
            env={"PYTHONHASHSEED": hash_seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    first = printed(source)
    assert len(first.strip()) == 64
    assert printed("# a comment, and a line more\n\n" + source, "7") == first
    assert printed(source.replace("[:, 0]", "[:, 1]")) != first
