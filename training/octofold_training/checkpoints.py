"""Checkpoints: folders with the weights of a network and a JSON description of its architecture.

Weights are read with `weights_only=True`, so a checkpoint cannot run code. The name of the weights file
contains its digest. A save replaces the description last. So after an interrupted save, the folder still
contains the old checkpoint.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from octofold_game.commands.suggestions import missing
from octofold_game.system.files import atomic_write, write_text
from torch import Tensor, nn

from octofold_training.errors import TrainingError
from octofold_training.networks.architectures import Architecture, ArchitectureError
from octofold_training.networks.build import all_finite, build, count_weights

_FORMAT = 1
_DESCRIPTION = "checkpoint.json"
_WEIGHTS = "weights-{}.pt"
_DIGITS = 12  # number of the digest's hexadecimal digits in the name of the weights file


class CheckpointError(TrainingError):
    """An error about a checkpoint: missing, damaged, in an unknown format, or too large for float16."""


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint: a network in evaluation mode, its architecture, its training, its SHA-256."""

    network: nn.Module
    architecture: Architecture
    training: dict[str, Any]
    sha256: str

    @property
    def provenance(self) -> dict[str, Any]:
        """The SHA-256 of the weights file, and the training stages.

        A run that starts from this network records them.
        """
        return {"sha256": self.sha256, "stages": self.training.get("stages", [])}


def save(
    folder: Path,
    network: nn.Module,
    architecture: Architecture,
    training: dict[str, Any],
    *,
    float16: bool = False,
) -> None:
    """Write `network` to `folder`, replacing the checkpoint there.

    Args:
        folder: the folder of the checkpoint; created if missing.
        network: a network of the `architecture`.
        architecture: the architecture that `build` needs to rebuild the network.
        training: how the network was trained, as free-form JSON.
        float16: whether to round the weights to float16, which takes 2 bytes per weight.

    Raises:
        CheckpointError: with `float16`, a weight is too large or not finite. Nothing is written.
    """
    weights_of = as_float16(network.state_dict()) if float16 else network.state_dict()
    folder.mkdir(parents=True, exist_ok=True)
    unnamed = folder / "weights.new"
    save_tensors(unnamed, weights_of)
    digest = sha256(unnamed)
    weights = unnamed.replace(folder / _WEIGHTS.format(digest[:_DIGITS]))
    description = {
        "format": _FORMAT,
        "architecture": architecture,
        "weights": count_weights(network),
        "file": weights.name,
        "sha256": digest,
        "training": training,
    }
    write_text(folder / _DESCRIPTION, json.dumps(description, indent=2) + "\n")
    for old in set(folder.glob(_WEIGHTS.format("[0-9a-f]" * _DIGITS))) - {weights}:
        old.unlink()


def is_checkpoint(folder: Path) -> bool:
    """Return whether the folder contains a checkpoint. Does not check that it can be read."""
    return (folder / _DESCRIPTION).exists()


def as_float16(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights, with floating-point tensors rounded to float16.

    Raises:
        CheckpointError: a weight is too large for float16 or is not a finite number.
    """
    rounded = {
        name: weight.half() if weight.is_floating_point() else weight for name, weight in weights.items()
    }
    for name, weight in rounded.items():
        if weight.is_floating_point() and not weight.isfinite().all():
            largest = weights[name].abs().max()
            raise CheckpointError(
                f"the weights {name} must be at most 65,504 for float16, got {largest:,.0f}; set "
                "`float16 = false` in the recipe"
            )
    return rounded


def load(folder: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        CheckpointError: the checkpoint is missing, damaged, in an unknown format, or has non-finite weights.
    """
    found = describe(folder)
    weights = folder / found.file
    try:
        digest = sha256(weights)
        if digest != found.sha256:
            raise CheckpointError(
                f"{weights} is damaged or was replaced: its SHA-256 is {digest}, but {_DESCRIPTION} has "
                f"{found.sha256}"
            )
        network = build(found.architecture)
        network.load_state_dict(load_tensors(weights))
    except OSError as error:
        raise CheckpointError(f"{weights}: {error.strerror}") from error
    except ArchitectureError as error:
        raise CheckpointError(f"{folder / _DESCRIPTION}: architecture: {error}") from error
    except (pickle.UnpicklingError, RuntimeError, EOFError, TypeError, KeyError, AttributeError) as error:
        reason = " ".join(str(error).split())  # torch's message has several lines, with tabs
        raise CheckpointError(f"{weights}: the weights do not fit the architecture ({reason})") from error
    if not all_finite(network):
        raise CheckpointError(f"{weights} contains weights that are not finite numbers")
    return Checkpoint(network.eval(), found.architecture, found.training, digest)


@dataclass(frozen=True)
class CheckpointDescription:
    """The JSON description in the folder of a checkpoint."""

    architecture: Architecture
    weights: int
    """Number of weights."""
    file: str
    sha256: str
    training: dict[str, Any]


def describe(folder: Path) -> CheckpointDescription:
    """Read the description of a checkpoint without its weights.

    Raises:
        CheckpointError: the description is missing, damaged or in an unknown format.
    """
    try:
        content = json.loads((folder / _DESCRIPTION).read_text())
        if content["format"] != _FORMAT:
            raise CheckpointError(
                f"{folder / _DESCRIPTION} has format {content['format']}, but this version reads format "
                f"{_FORMAT}"
            )
        training = content["training"]
        if not isinstance(training, dict):
            raise TypeError("training must be a JSON object")
        return CheckpointDescription(
            content["architecture"],
            content["weights"],
            Path(content["file"]).name,
            content["sha256"],
            training,
        )
    except FileNotFoundError as error:
        if not folder.exists():
            raise CheckpointError(missing(folder)) from error
        raise CheckpointError(f"{folder} is not a checkpoint: {_DESCRIPTION} is missing") from error
    except OSError as error:
        raise CheckpointError(f"{folder / _DESCRIPTION}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{folder / _DESCRIPTION}: not a checkpoint description ({error})") from error


def save_tensors(file: Path, tensors: Any) -> None:
    """Write tensors as `torch.save` does. A failed write leaves no partial file."""
    content = io.BytesIO()  # torch's own error about a full disk would not name the file
    torch.save(tensors, content)
    with atomic_write(file) as partial:
        partial.write_bytes(content.getbuffer())


def load_tensors(file: Path) -> Any:
    """Read tensors and plain values, onto the CPU. Raises an error for a file that would run code."""
    return torch.load(file, map_location="cpu", weights_only=True)


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
