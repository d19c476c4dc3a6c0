"""Reads files of weights as data: nothing in them is executed.

A checkpoint often contains more than tensors: configurations, metrics, or the pickled module itself. torch
loads the types that it considers safe. Objects of other classes become `Inert` objects, which keep their
state.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy._core.multiarray import _reconstruct
from octofold_game.errors import first_line
from torch import nn

from octofold_export.errors import ExportError
from octofold_export.sources.file_kinds import SB3_FILES, advice, check_size, kind_of

_MOST_CLASSES = 200
_KINDS_OF_WEIGHTS = ("torch", "SB3", "")
_ACCEPTED_FILES = "--weights takes a file of torch.save, a .safetensors file, or a .zip of Stable-Baselines3"


class Inert:
    """A placeholder for an object whose class is not loaded."""

    def __init__(self, *given: Any) -> None:
        """Keep the first argument that is itself a placeholder.

        A module of `torch.compile` is saved as a call whose first argument is the original module.
        """
        self.state: Any = next((argument for argument in given if isinstance(argument, Inert)), None)

    def __setstate__(self, state: Any) -> None:
        self.state = state


def read_file(file: Path) -> bytes:
    """Return the content of a file after checks of its size and, for a zip file, of its unpacked content.

    Raises:
        ExportError: the file cannot be read, is empty, is a damaged zip file, or is too large.
    """
    check_size(file)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ExportError(f"{file}: {error.strerror}") from error
    if not content:
        raise ExportError(f"{file}: the file is empty")
    try:  # torch does not compress its zip files, but another zip file may unpack to any size
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_size(file, sum(entry.file_size for entry in archive.infolist()))
            damaged = archive.testzip()
    except zipfile.BadZipFile:
        return content  # not a zip file; the reader of its format will check it
    if damaged is not None:
        raise ExportError(f"{file}: the zip file is damaged: the checksum of {damaged!r} is wrong")
    return content


def read_weights(file: Path) -> tuple[Any, str]:
    """Return the nested dictionaries and lists in a file of weights, and the file's SHA-256.

    Raises:
        ExportError: the file is unreadable, damaged or not a file of weights, or reading it would run code.
    """
    content = read_file(file)
    digest = hashlib.sha256(content).hexdigest()
    kind = kind_of(content)
    if kind == "safetensors":
        try:
            return safetensors.torch.load(content), digest
        except Exception as error:  # damaged files raise errors of unrelated classes
            raise ExportError(f"{file}: a damaged file of weights ({first_line(error)})") from error
    if kind == "SB3":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            inner = next(name for name in SB3_FILES if name in archive.namelist())
            content = archive.read(inner)
    elif kind not in _KINDS_OF_WEIGHTS:
        raise ExportError(f"{file}: not a file of weights{advice(content)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about old pickle formats
            return _load(content), digest
    except Exception as error:  # damaged files raise errors of unrelated classes
        if isinstance(error, pickle.UnpicklingError) and kind:
            raise ExportError(
                f"{file}: reading the weights would execute code from the file ({_short_reason(error)}); "
                "save only module.state_dict()"
            ) from error
        # For an unknown format, torch's reason would mislead.
        why = f" ({_short_reason(error)})" if kind else f"; {_ACCEPTED_FILES}"
        raise ExportError(f"{file}: not a file of weights, or a damaged one{why}") from error


def sb3_data(file: Path) -> dict[str, Any]:
    """Return the JSON settings in a file of Stable-Baselines3; empty for any other file.

    Raises:
        ExportError: the file cannot be read.
    """
    content = read_file(file)
    if kind_of(content) != "SB3":
        return {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        try:
            data = json.loads(archive.read("data"))
        except (KeyError, ValueError):
            return {}
    return data if isinstance(data, dict) else {}


def _load(content: bytes) -> Any:
    """Return what torch's restricted unpickler loads from a file; `Inert` replaces each refused class."""
    known: list[Any] = [np.ndarray, np.dtype, *(type(np.dtype(code)) for code in "fdehilqBHILQ?bp")]
    known += [(_reconstruct, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
    inert: list[Any] = []  # pairs of `Inert` and the name of the class that it replaces
    while True:
        try:
            with torch.serialization.safe_globals([*known, *inert]):
                return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            name = _unknown_class(error)
            if name is None or len(inert) >= _MOST_CLASSES or (Inert, name) in inert:
                raise
            inert.append((Inert, name))


def _unknown_class(error: BaseException) -> str | None:
    """Return the name of the class that torch refuses, from torch's error message, or None."""
    _, found, rest = str(error).partition("Unsupported global: GLOBAL ")
    if not found:
        return None
    name = rest.split()[0]
    return name if "." in name else f"builtins.{name}"


def is_lazy(value: Any) -> bool:
    """Return whether a tensor of a module has no shape yet, as in `nn.LazyLinear` before its first call."""
    return isinstance(value, (nn.UninitializedParameter, nn.UninitializedBuffer))


def _short_reason(error: BaseException) -> str:
    """Return the reason in torch's error message without the advice to load unsafe files."""
    text = str(error)
    reason = " ".join((text.partition("WeightsUnpickler error: ")[2] or first_line(error)).split())
    return reason.partition(". ")[0].partition(" Check the documentation")[0][:120].rstrip(". ")


def tensors_of_module(value: Inert) -> dict[str, torch.Tensor]:
    """Return the tensors of a pickled module by name; empty if the object is not a module."""
    found: dict[str, torch.Tensor] = {}
    waiting: list[tuple[str, Any]] = [("", value)]
    seen: set[int] = set()  # a module in a file may contain itself
    while waiting:
        prefix, part = waiting.pop(0)
        state = part.state if isinstance(part, Inert) and id(part) not in seen else None
        if not isinstance(state, Mapping):
            continue
        seen.add(id(part))
        for group in ("_parameters", "_buffers"):
            for name, tensor in (state.get(group) or {}).items():
                if isinstance(tensor, torch.Tensor):
                    found[f"{prefix}{name}"] = tensor
        waiting += [(f"{prefix}{name}.", inner) for name, inner in (state.get("_modules") or {}).items()]
    return found
