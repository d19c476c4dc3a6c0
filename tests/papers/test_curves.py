"""The reports of a learner have what its curves show."""

from dataclasses import asdict, fields
from pathlib import Path

import pytest
from octofold_papers.dqn_notebook import dqn
from octofold_papers.supervised import imitation
from octofold_papers.turbozero import lazyzero
from octofold_training.learners import distil
from octofold_training.learners.student_run import StudentProgress
from octofold_training.run.curves import Curves, draw_curves
from octofold_training.run.training_run import RunProgress


@pytest.mark.parametrize(
    ("shown", "kind"),
    [
        (distil.CURVES, StudentProgress),
        (imitation.CURVES, imitation.ImitationProgress),
        (dqn.CURVES, dqn.DQNProgress),
        (lazyzero.CURVES, lazyzero.LazyZeroProgress),
    ],
)
def test_the_reports_of_every_kind_have_what_its_curves_show(
    tmp_path: Path, shown: Curves, kind: type[RunProgress]
) -> None:
    """In the first report, all that may be None is None, as before a game has ended."""
    first = {field.name: None if "None" in str(field.type) else 1 for field in fields(kind)}
    second = dict.fromkeys(first, 2)
    reports = [asdict(kind(**report)) for report in (first, second)]
    draw_curves(reports, tmp_path / "curves.png", shown)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
