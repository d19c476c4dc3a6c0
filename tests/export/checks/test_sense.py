"""Wrong descriptions are found out by a sensible player: a published model, or a search."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_export.checks.judges import find_judge, read_judge
from octofold_export.checks.reference import Evaluate
from octofold_export.checks.sense import weigh
from octofold_export.description.description import ACTIONS, Action, Answers, Description, Reads
from octofold_export.errors import ExportError
from octofold_game.rules import legal_moves
from support.lessons import Lessons, afterstate_lessons
from support.shipped import newest

READS = Reads(kind="exponents", layout="flat")


def linear_value(lessons: Lessons) -> Evaluate:
    """The least squares fit of the leads to the cells of afterstates."""
    boards, leads = afterstate_lessons(lessons)

    def features(asked: NDArray[np.uint8]) -> NDArray[np.float64]:
        return np.eye(16)[asked].reshape(len(asked), -1)

    gram = features(boards).T @ features(boards) + 10 * np.eye(256)
    weights = np.linalg.solve(gram, features(boards).T @ leads.double().numpy())
    return lambda asked: features(asked) @ weights[:, None]


class ByTheBook:
    """The lessons' own player."""

    name = "the book"

    def __init__(self, lessons: Lessons) -> None:
        self.moves = {
            board.tobytes(): move
            for board, move in zip(lessons.boards, lessons.leads.argmax(axis=1), strict=True)
        }

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        return np.array([self.moves[board.tobytes()] for board in boards], np.int8)


def described(**answers: Any) -> Description:
    return Description(reads=READS, answers=Answers(**answers), largest_exponent=15)


def leads_of(lessons: Lessons, boards: NDArray[np.uint8]) -> NDArray[np.float64]:
    known = {board.tobytes(): leads for board, leads in zip(lessons.boards, lessons.leads, strict=True)}
    return np.array([known[board.tobytes()] for board in boards], np.float64)


@pytest.mark.parametrize("actions", [ACTIONS, ("left", "down", "up", "right")], ids=",".join)
def test_the_order_that_fits_is_told_from_the_23_others(
    actions: tuple[Action, Action, Action, Action], lessons: Lessons
) -> None:
    boards, judge = lessons.boards[:1_000], ByTheBook(lessons)
    columns = [ACTIONS.index(action) for action in actions]

    def evaluate(asked: NDArray[np.uint8]) -> NDArray[np.float64]:
        return leads_of(lessons, asked)[:, columns]

    right = weigh(described(kind="policy_logits", actions=actions), evaluate, boards, judge)
    assert right.problem is None
    assert (right.agreement, len(right.others)) == (1.0, 23)
    wrong = weigh(described(kind="policy_logits", actions=actions[::-1]), evaluate, boards, judge)
    assert wrong.problem == f"it makes more sense if the actions are {','.join(actions)}"
    assert next(iter(wrong.others.values())) == 1.0


def test_orders_that_fit_equally_well_are_named(lessons: Lessons) -> None:
    def evaluate(asked: NDArray[np.uint8]) -> NDArray[np.float64]:
        leads = leads_of(lessons, asked)
        leads[:, 0] = leads[:, 1] = np.maximum(leads[:, 0], leads[:, 1])  # cannot tell up from right
        return leads + np.random.default_rng(1).normal(0, 1e-6, leads.shape)

    evidence = weigh(described(kind="policy_logits"), evaluate, lessons.boards[:1_000], ByTheBook(lessons))
    assert evidence.problem == "it makes as much sense if the actions are right,up,down,left"


def test_noise_is_no_better_than_chance_or_than_another_order(lessons: Lessons) -> None:
    def evaluate(asked: NDArray[np.uint8]) -> NDArray[np.float64]:
        return np.random.default_rng(1).random((len(asked), 4))

    evidence = weigh(described(kind="policy_logits"), evaluate, lessons.boards[:1_000], ByTheBook(lessons))
    assert evidence.problem is not None
    assert abs(evidence.agreement - evidence.chance) < 0.05


def test_values_of_the_opposite_sign_are_found_out(lessons: Lessons) -> None:
    judge, value = find_judge(Path("nowhere")), linear_value(lessons)
    description = described(kind="afterstate_value", scale=1000.0)
    assert weigh(description, value, lessons.boards[:1_000], judge).problem is None
    evidence = weigh(description, lambda boards: -value(boards), lessons.boards[:1_000], judge)
    assert evidence.problem == "it makes more sense if small values are good"


def test_the_strongest_measured_model_judges(tmp_path: Path, lessons: Lessons) -> None:
    averages = {}
    for name in ("cnn5", "swift"):
        version = newest(name)
        (tmp_path / name).mkdir()
        (tmp_path / name / version.name).symlink_to(version)
        card = json.loads((version / "card.json").read_text())
        averages[f"{name} version {version.name}"] = card["strength"]["average"]
    judge = find_judge(tmp_path)
    assert judge.name == max(averages, key=averages.__getitem__)
    boards = lessons.boards[:50]
    assert legal_moves(boards)[np.arange(50), judge.next_moves(boards)].all()


def test_a_judge_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="not a published version"):
        read_judge(tmp_path)
