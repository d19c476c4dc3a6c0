"""The stages of a run tell whether a checkpoint was once its own."""

from typing import Any

import pytest
from octofold_training.run.provenance import Stage, goes_on


def stage(positions: int, method: str = "distillation", **options: Any) -> Stage:
    return {"method": method, "positions": positions, "hours": 0.1, "options": {"seed": 1, **options}}


NOW = [stage(100), stage(300, seed=2, sizes=(3, 4)), stage(50, seed=3)]


@pytest.mark.parametrize(
    "before",
    [
        NOW,
        [stage(100)],
        [stage(60)],
        [stage(100), stage(200, seed=2, sizes=[3, 4])],  # as JSON has it
    ],
)
def test_a_run_goes_on_from_what_it_was(before: list[Stage]) -> None:
    assert goes_on(before, NOW)


@pytest.mark.parametrize(
    "before",
    [
        [],
        [stage(101)],
        [stage(60), stage(200, seed=2, sizes=(3, 4))],
        [stage(100), stage(200, seed=4, sizes=(3, 4))],
        [stage(100, "ppo")],
        [*NOW, stage(1)],
    ],
    ids=["nothing", "further", "shorter before", "other options", "other method", "more stages"],
)
def test_a_run_does_not_go_on_from_what_another_run_was(before: list[Stage]) -> None:
    assert not goes_on(before, NOW)
