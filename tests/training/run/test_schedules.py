"""How rates change in the course of a run."""

import pytest
from octofold_training.run.training_run import cooling


@pytest.mark.parametrize(
    ("done", "cool_down", "factor"),
    [
        (0, 0.25, 1.0),
        (75, 0.25, 1.0),
        (90, 0.25, 0.4),
        (100, 0.25, 0.0),
        (130, 0.25, 0.0),
        (50, 1.0, 0.5),
        (100, 0.0, 1.0),
    ],
)
def test_a_rate_stays_and_then_falls_in_a_line_to_nothing(
    done: float, cool_down: float, factor: float
) -> None:
    assert cooling(done, 100, cool_down) == pytest.approx(factor)
