"""Digests of local players are equal exactly for equal players."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client.contenders.local_players import source_digest
from octofold_game.rules import legal_moves


class Preferring:
    """A player that makes the first legal move in a given order."""

    name = "preferring"

    def __init__(self, order: Any) -> None:
        self.order = order

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        order = np.array(self.order)
        moves: NDArray[np.int8] = order[legal_moves(boards)[:, order].argmax(axis=1)].astype(np.int8)
        return moves


class DefinedElsewhere(Preferring):
    """A subclass that makes the same moves but is defined elsewhere."""

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        return super().next_moves(boards.copy())


@dataclass(frozen=True)
class Biased:
    bias: float = 0.1
    name: str = "biased"


def test_players_with_equal_options_have_the_same_digest() -> None:
    assert source_digest(Preferring([0, 1, 2, 3])) == source_digest(Preferring([0, 1, 2, 3])) is not None
    assert source_digest(Biased(0.1)) == source_digest(Biased()) is not None
    assert source_digest(Preferring({"b": 1, "a": 2})) == source_digest(Preferring({"a": 2, "b": 1}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Preferring([0, 1, 2, 3]), Preferring([1, 0, 2, 3])),
        (Preferring([0, 1]), DefinedElsewhere([0, 1])),
        (Biased(0.1), Biased(0.9)),
        (Preferring(Path("a")), Preferring(Path("b"))),
        (Preferring(1), Preferring(1.0)),
    ],
)
def test_another_option_or_class_changes_the_digest(one: object, other: object) -> None:
    assert None not in (source_digest(one), source_digest(other))
    assert source_digest(one) != source_digest(other)


def test_the_digest_is_the_same_in_another_process_and_changes_with_the_source(tmp_path: Path) -> None:
    script, base = tmp_path / "mine.py", tmp_path / "base.py"
    base.write_text("class Base:\n    def next_moves(self, boards):\n        return boards[:, 0]\n")
    script.write_text(
        "from base import Base\n"
        "from octofold_client.contenders.local_players import source_digest\n"
        "class Mine(Base):\n    name = 'mine'\n"
        "print(source_digest(Mine()))\n"
    )

    def printed(seed: str) -> str:
        env = {"PYTHONHASHSEED": seed, "PATH": ""}
        return subprocess.run([sys.executable, script], env=env, stdout=subprocess.PIPE, text=True).stdout

    first = printed("7")
    assert len(first.strip()) == 64
    assert printed("8") == first
    base.write_text(base.read_text().replace("[:, 0]", "[:, 1]"))
    assert printed("7") != first
