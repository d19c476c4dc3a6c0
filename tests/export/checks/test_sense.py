"""Wrong descriptions are found out by a sensible player: a published model, or a search."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray
from octofold_export.checks.reference import Evaluate
from octofold_export.checks.sense import Reread, compare_readings, find_judge, read_judge
from octofold_export.description.description import Action, AnswerKind, Answers, Description, Reads
from octofold_export.description.encoding import encode
from octofold_export.errors import ExportError
from octofold_game.rules import MOVE_NAMES, legal_moves
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer
from support.lessons import Lessons, afterstate_lessons
from support.shipped import newest


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


def described(kind: AnswerKind, divide_by: float = 1.0, **answers: Any) -> Description:
    reads = Reads(kind="exponents", layout="flat", divide_by=divide_by)
    return Description(reads=reads, answers=Answers(kind=kind, **answers), largest_exponent=8)


def good_policy(boards: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Stands for a network that has learned a lot."""
    return HeuristicExpectimaxPlayer(depth=1).action_values(boards)


def early(lessons: Lessons) -> NDArray[np.uint8]:
    """Boards of games that end with the tile 256, so that they are short."""
    boards: NDArray[np.uint8] = lessons.boards[lessons.boards.max(axis=1) <= 8][:1_000]
    return boards


def only(evaluate: Evaluate) -> Reread:
    """A network that takes its cells in one way, as an embedding does."""

    def refuse(_boards: NDArray[np.uint8]) -> NDArray[np.float64]:
        raise ExportError("the network does not take these numbers")

    return lambda description: evaluate if description.reads == described("policy_logits").reads else refuse


@pytest.mark.parametrize("actions", [MOVE_NAMES, ("left", "down", "up", "right")], ids=",".join)
def test_a_wrong_order_of_the_actions_is_told_by_the_games_that_it_loses(
    actions: tuple[Action, Action, Action, Action], lessons: Lessons
) -> None:
    judge = ByTheBook(lessons)
    columns = [MOVE_NAMES.index(action) for action in actions]
    boards = early(lessons)

    def evaluate(asked: NDArray[np.uint8]) -> NDArray[np.float64]:
        return good_policy(asked)[:, columns]

    right = compare_readings(described("policy_logits", actions=actions), only(evaluate), boards, judge)
    assert (right.problem, right.warning) == (None, None)
    wrong = compare_readings(described("policy_logits", actions=actions[::-1]), only(evaluate), boards, judge)
    assert wrong.problem is not None
    assert f"with --actions {','.join(actions)} it scores" in wrong.problem
    assert (
        f"--input exponents --layout flat --answer policy_logits --actions {','.join(actions)}"
        in wrong.problem
    )


def test_cells_that_are_read_in_another_unit_are_told_with_the_flags_of_the_right_one(
    lessons: Lessons,
) -> None:
    """Here the network was trained on exponents divided by 11, and is given the tiles themselves."""
    trained = described("policy_logits", divide_by=11.0)

    def reread(description: Description) -> Evaluate:
        def evaluate(boards: NDArray[np.uint8]) -> NDArray[np.float64]:
            numbers = encode(description.reads, boards).astype(np.float64) * trained.reads.divide_by
            return good_policy((numbers.round() % 16).astype(np.uint8))

        return evaluate

    judge, boards = ByTheBook(lessons), early(lessons)
    assert compare_readings(trained, reread, boards, judge).problem is None
    for reads in (Reads(kind="tiles", layout="flat"), Reads(kind="exponents", layout="flat", divide_by=0.5)):
        wrong = compare_readings(replace(trained, reads=reads), reread, boards, judge)
        assert wrong.problem is not None
        assert "--divide-by 11" in wrong.problem


def test_a_network_that_has_learned_nothing_gets_a_warning_and_is_not_called_misread(
    lessons: Lessons,
) -> None:
    weights = np.random.default_rng(1).normal(size=(256, 4))

    def evaluate(asked: NDArray[np.uint8]) -> NDArray[np.float64]:
        return np.eye(16)[asked].reshape(len(asked), -1) @ weights

    boards = early(lessons)
    evidence = compare_readings(described("policy_logits"), only(evaluate), boards, ByTheBook(lessons))
    assert evidence.problem is None
    warning = (
        "it plays little better than chance, as a network does that has hardly learned, or whose numbers"
    )
    assert evidence.warning is not None
    assert evidence.warning.startswith(f"{warning} mean something else: with --actions ")


class AgainstTheBook(ByTheBook):
    """Makes the moves that the lessons' own player would make last."""

    def __init__(self, lessons: Lessons) -> None:
        worst = np.where(legal_moves(lessons.boards), -lessons.leads, -np.inf)
        super().__init__(Lessons(lessons.boards, worst))


def test_a_network_that_scores_well_gets_no_warning_though_it_seldom_agrees(lessons: Lessons) -> None:
    description = replace(described("policy_logits"), largest_exponent=8)  # so games are short
    boards = lessons.boards[lessons.boards.max(axis=1) <= 8][:300]
    evidence = compare_readings(description, only(good_policy), boards, AgainstTheBook(lessons))
    assert evidence.agreement < evidence.chance
    assert (evidence.problem, evidence.warning) == (None, None)


def test_values_of_the_opposite_sign_are_found_out(lessons: Lessons) -> None:
    judge, value = find_judge(Path("nowhere")), linear_value(lessons)
    description = described("afterstate_value", scale=1000.0)
    assert compare_readings(description, only(value), early(lessons), judge).problem is None
    evidence = compare_readings(description, only(lambda boards: -value(boards)), early(lessons), judge)
    assert evidence.problem is not None
    assert evidence.problem.startswith("with small values as good ones it scores")


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
