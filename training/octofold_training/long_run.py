"""How a run that takes hours goes on: report, save now and then, stop in time, keep what Ctrl-C interrupts.

Knows nothing about what is learned, nor what a save writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from octofold_training.history import History

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Progress = TypeVar("Progress", bound="DataclassInstance")
Reports = TypeVar("Reports", bound="DataclassInstance", covariant=True)


class Run(Protocol[Reports]):
    """A run in the middle of its work."""

    positions: int
    seconds: float

    def learn(self) -> Reports:
        """Go on for some seconds."""
        ...

    def is_sound(self) -> bool:
        """Whether its state is worth keeping."""
        ...


def go_on(
    run: Run[Progress],
    positions: float,
    history: History,
    report: Callable[[Progress], None],
    save: Callable[[], None],
    minutes: float,
    save_every_seconds: float,
) -> None:
    """Let `run` learn until it has `positions`, or for `minutes` more; then save.

    Every report goes to `report` and into `history`. What `learn` and `report` raise ends the run and leaves
    the last save as it was, except that Ctrl-C saves first.
    """
    started = saved = run.seconds
    try:
        while run.positions < positions and run.seconds - started < minutes * 60:
            progress = run.learn()
            report(progress)
            history.append(progress)
            if run.seconds - saved > save_every_seconds:
                save()
                saved = run.seconds
    except KeyboardInterrupt:
        if run.is_sound():
            save()
        raise
    save()
