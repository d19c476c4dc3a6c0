"""The loop of every training run: it resumes, reports, saves regularly, and stops at a time limit or Ctrl-C.

The folder of a run contains its resumable state, its history as JSON lines, and its curves as a picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict, TypeVar
from uuid import uuid4
from zipfile import ZipFile

import msgspec
from octofold_game.system.files import why_not_writable

from octofold_training import checkpoints
from octofold_training.checkpoints import CheckpointError
from octofold_training.errors import TrainingError, is_out_of_memory
from octofold_training.networks.build import all_finite
from octofold_training.run.curves import Curves, draw_curves
from octofold_training.run.folder import History, exclusive_folder
from octofold_training.run.options import fixed_options, require_same
from octofold_training.run.progress import notice
from octofold_training.run.training_run import RunProgress, TrainingRun

if TYPE_CHECKING:
    from octofold_training.games.strength import StrengthEstimate

STATE = "state.pt"
SAVE_SECONDS = 60.0
"""Seconds of learning between saves of state and checkpoint."""

Progress = TypeVar("Progress", bound=RunProgress)
Stage = dict[str, Any]
"""A stage of a run as plain JSON: its `positions`, `hours`, `options` and `method`, and the SHA-256 of the
networks that it learned from or started from."""


class _StageFields(TypedDict):
    """The fields that every stage must have, with their types."""

    positions: Annotated[int, msgspec.Meta(ge=0)]
    hours: float
    options: dict[str, Any]


_LENGTHS = ("positions", "episodes", "hours")


def require_stages(content: Any) -> list[Stage]:
    """Check that a value from a file is a list of stages, and return it.

    Raises:
        ValueError: the value is not a list of stages.
    """
    try:
        msgspec.convert(content, list[_StageFields])
    except msgspec.ValidationError as error:
        raise ValueError(f"the entry 'stages' is not a list of stages: {error}") from error
    stages: list[Stage] = content
    return stages


def stages_so_far(
    before: Sequence[Stage],
    origin: Mapping[str, Any],
    options: Mapping[str, Any],
    positions: int,
    seconds: float,
) -> list[Stage]:
    """Return the stages of a run that has reached `positions` after `seconds`.

    Args:
        before: the stages when the run was resumed; empty for a new run.
        origin: the current method, see `TrainingRun.origin`.
        options: the current options. A change of the run's length does not begin a new stage.
        positions: the number of positions of the whole run.
        seconds: the seconds of the whole run.

    Returns:
        The earlier stages and, if it has positions, the current one. If neither method nor options have
        changed since the last stage, the current stage takes its place and includes it.
    """
    earlier = list(before)
    if earlier and _continues(earlier[-1], {**origin, "options": dict(options)}):
        earlier.pop()
    positions -= sum(stage["positions"] for stage in earlier)
    hours = round(seconds / 3600 - sum(stage["hours"] for stage in earlier), 2)
    if not positions:
        return list(before)
    return [*earlier, {**origin, "positions": positions, "hours": hours, "options": dict(options)}]


def _continues(before: Stage, now: Stage) -> bool:
    """Return whether stage `now` continues stage `before`. Options that only one of them has are ignored."""
    shared = (before["options"].keys() & now["options"].keys()) - {*_LENGTHS}
    return _without_lengths(before, shared) == _without_lengths(now, shared)


def _without_lengths(stage: Stage, options: Set[str]) -> dict[str, Any]:
    """Return a stage without the fields that measure its length, and with only the named options."""
    fields = {name: value for name, value in stage.items() if name not in _LENGTHS}
    return fields | {"options": {name: stage["options"][name] for name in options}}


class _Counts(msgspec.Struct):
    """The numbers of a saved state, which are checked when it is loaded."""

    positions: Annotated[int, msgspec.Meta(ge=0)]
    seconds: Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class SavedRun(NamedTuple):
    """The stages and the identity of a saved run."""

    stages: Sequence[Stage]
    identity: str
    """Random identifier of the run. The checkpoint of the run contains it, too."""


def save_state(run: TrainingRun[Any], folder: Path, begun: SavedRun) -> None:
    """Write one file with everything that `resume` needs."""
    folder.mkdir(parents=True, exist_ok=True)
    state = run.state()
    state |= {"options": asdict(run.options), "seconds": run.seconds, "positions": run.positions}
    state |= {"stages": list(begun.stages), "identity": begun.identity}
    checkpoints.save_tensors(folder / STATE, state)


def resume(run: TrainingRun[Any], folder: Path) -> SavedRun:
    """Set a new run to the state that `save_state` wrote. Return the stages and the identity.

    Raises:
        TrainingError: the state cannot be read, is damaged, or belongs to another run or version.
    """
    file = folder / STATE
    try:
        with ZipFile(file) as archive:
            if broken := archive.testzip():  # torch does not check the checksums
                raise ValueError(f"{broken} does not match its checksum")
        state = checkpoints.load_tensors(file)
        counts = msgspec.convert(state, _Counts)
        run.seconds, run.positions = counts.seconds, counts.positions
        require_same(fixed_options(run.options), state["options"], run.options)
        run.restore(state)
        defaults = {each.name: each.default for each in fields(run.options)}  # of options that are new
        stages = require_stages(state["stages"])
        return SavedRun(
            [stage | {"options": defaults | stage["options"]} for stage in stages], state["identity"]
        )
    except TrainingError as error:
        raise TrainingError(f"{file}: {error}") from error
    except (FileNotFoundError, PermissionError) as error:
        raise TrainingError(f"{file}: {error.strerror}") from error
    except KeyError as error:
        raise TrainingError(
            f"{file} has no {error}: it belongs to another version or kind of run; continue with the same "
            "version and command, or name another --state and another --checkpoint"
        ) from error
    except Exception as error:  # torch documents no exception for a damaged file
        if is_out_of_memory(error):
            raise
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise TrainingError(
            f"{file} is damaged or belongs to another run ({reason}); remove it, or name another --state"
        ) from error


Estimate = Callable[[TrainingRun[Any]], "StrengthEstimate | None"]
"""A function that estimates a run's strength if an estimate is due, and otherwise returns None."""


def train(
    run: TrainingRun[Progress],
    folder: Path,
    checkpoint: Path,
    curves: Curves,
    report: Callable[[Progress], None],
    minutes: float = math.inf,
    estimate: Estimate = lambda _: None,
) -> None:
    """Train until the run is finished, or for `minutes`. Continue from `folder` if it contains a state.

    The averaged network is written to `checkpoint` whenever the state is saved, and at the end. Every report
    goes to `report` and to the history, together with the strength if `estimate` returns one. After Ctrl-C,
    the state is saved and the exception is raised again. Any other exception, such as `TrainingError`, leaves
    the last save unchanged.

    Raises:
        TrainingError: another process is training in `folder`, a folder is not writable, `checkpoint` or the
            state belongs to another run or cannot be read, or learning failed.
    """
    with exclusive_folder(folder):
        is_new = not (folder / STATE).exists()
        begun = SavedRun((), uuid4().hex) if is_new else resume(run, folder)
        history = History(folder / "history.jsonl", run.positions, curves.titles)
        files = _Files(run, folder, checkpoint, curves, history, begun)
        if is_new:
            run.warm_up()
        try:
            _learn(run, files, report, minutes, estimate)
        except KeyboardInterrupt:
            notice(f"stopping; saving the run in {folder}")
            files.save()
            raise
        files.save()


def _learn(
    run: TrainingRun[Progress],
    files: _Files,
    report: Callable[[Progress], None],
    minutes: float,
    estimate: Estimate,
) -> None:
    started = saved = run.seconds
    while not run.finished and run.seconds - started < minutes * 60:
        progress = run.learn()
        if strength := estimate(run):
            progress = replace(progress, strength=round(strength.average, 1))
        report(progress)
        files.history.append(progress)
        if run.seconds - saved > SAVE_SECONDS:
            files.save()
            saved = run.seconds


class _Files:
    """The files of a run and its checkpoint."""

    def __init__(
        self,
        run: TrainingRun[Any],
        folder: Path,
        checkpoint: Path,
        curves: Curves,
        history: History,
        begun: SavedRun,
    ) -> None:
        """Raise `TrainingError` if the checkpoint belongs to another run or cannot be written."""
        self._folder, self.history = folder, history
        self._run, self._checkpoint, self._curves = run, checkpoint, curves
        self._begun = begun
        self._require_own_checkpoint()
        # If the folder is not writable, the first save would fail and the training until then be lost.
        if reason := why_not_writable(checkpoint):
            raise TrainingError(f"--checkpoint: {reason}")

    def save(self) -> None:
        """Write the state, the checkpoint and the curves if the run has learned something.

        Raises:
            TrainingError: the weights are not finite or too large for float16, or the checkpoint belongs to
                another run.
        """
        run = self._run
        if not run.positions:
            return
        if not all_finite(run.network, run.averaged):
            raise TrainingError(
                f"the weights are no longer finite numbers at {run.positions:,} positions; {self._folder} "
                "keeps the previous save"
            )
        float16 = getattr(run.options, "float16", False)  # not every learner has this option
        if float16:
            # Checks the weights before the state is saved, since no run may resume with weights that are too
            # large for float16.
            checkpoints.as_float16(run.averaged.module.state_dict())
        self._require_own_checkpoint()  # another run may have written to the folder in the meantime
        options = asdict(run.options)
        stages = stages_so_far(self._begun.stages, run.origin, options, run.positions, run.seconds)
        save_state(run, self._folder, self._begun._replace(stages=stages))
        training = {
            **run.origin,
            "run": self._begun.identity,
            "positions": run.positions,
            "hours": round(run.seconds / 3600, 2),
            "options": options,
            "stages": stages,
        }
        checkpoints.save(self._checkpoint, run.averaged.module, run.architecture, training, float16=float16)
        draw_curves(self.history.reports, self._folder / "curves.png", self._curves)

    def _require_own_checkpoint(self) -> None:
        """Raise `TrainingError` if a save would replace the network of another run."""
        if not checkpoints.is_checkpoint(self._checkpoint):
            return
        remedy = "remove it, or name another --checkpoint"
        try:
            training = checkpoints.describe(self._checkpoint).training
        except CheckpointError as error:
            raise TrainingError(f"{error}; {remedy}") from error
        if training.get("run") != self._begun.identity:
            raise TrainingError(f"{self._checkpoint} contains the network of another run; {remedy}")
