"""Makes sources from PyTorch networks: modules of the user's code with their weights, and network files."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import torch
from octofold_game.commands.suggestions import did_you_mean
from torch import Tensor, nn

from octofold_export.description.hints import AnswersHints, Hints, ReadsHints, merged
from octofold_export.description.network import NoBatchError
from octofold_export.errors import ExportError, NeedsFlags
from octofold_export.printing import Report, silent
from octofold_export.sources.described_network import (
    Describe,
    describe_without_games,
    described_source,
    from_file,
)
from octofold_export.sources.sb3 import read_sb3
from octofold_export.sources.source import Source
from octofold_export.sources.state_dicts import choose_state_dict
from octofold_export.sources.torch_files import is_lazy, read_weights
from octofold_export.sources.torch_network import TorchNetwork, UserEncoder, error_line, read_torchscript

_TEST_BOARDS = 3
_EXPONENTS = ReadsHints(kind="exponents", layout="flat", type="int64")
"""The input of a network that contains the user's encoder: exponents."""


def from_module(
    place: str,
    weights: Path | None,
    hints: Hints,
    state: str | None = None,
    encoder: str | None = None,
    describe: Describe = describe_without_games,
    report: Report = silent,
) -> Source:
    """Make a source from the torch module that `place`, a `package.module:callable`, returns.

    `weights` is the file of its weights, and `state` names them in the file. `encoder` names a function
    that makes the module's input from exponents. `report` gets a line about the weights. If the module needs
    single boards, the graph runs it on one board at a time.

    Raises:
        ExportError: the module, the weights or the encoder cannot be used.
    """
    network, digest, note = read_module(place, weights, state, encoder)
    report(note)
    architecture = {"kind": "torch module", "module": place}
    if encoder is not None:
        architecture["encoder"] = encoder
        hints = merged(Hints(reads=_EXPONENTS), hints)
    try:
        return described_source(network, hints, architecture, digest, describe)
    except NoBatchError as error:
        report(f"{error}; therefore the graph runs the network on one board at a time")
        try:
            return described_source(network.one_by_one(), hints, architecture, digest, describe)
        except NeedsFlags:
            raise
        except ExportError as failure:
            raise ExportError(f"{error}; on one board at a time: {failure}") from error


def from_sb3(
    file: Path, hints: Hints, describe: Describe = describe_without_games, report: Report = silent
) -> Source:
    """Make a source from a standard policy of Stable-Baselines3. `report` gets a line about the weights.

    Raises:
        ExportError: the file cannot be used.
    """
    module, kind, digest, note = read_sb3(file)
    report(note)
    hints = merged(hints, Hints(answers=AnswersHints(kind=kind)))
    architecture = {"kind": "Stable-Baselines3", "file": file.name}
    return described_source(TorchNetwork(module, str(file)), hints, architecture, digest, describe)


from_torchscript = partial(from_file, read_torchscript, "TorchScript")


def read_module(
    place: str, weights: Path | None, state: str | None = None, encoder: str | None = None
) -> tuple[TorchNetwork, str, str]:
    """Call `place`, a `package.module:callable`, and load the weights named `state` from the file `weights`.

    `encoder` is a `package.module:function`. Returns the network, the SHA-256 of its weights, and a line that
    says where the weights are from.

    Raises:
        ExportError: the callable, the file of the weights or the encoder cannot be used, or two calls without
            `weights` give different weights.
    """
    module = _make_module(place)
    encode = None if encoder is None else read_encoder(encoder)
    if weights is None:
        _check_not_random(module, place)
        digest = _digest_of(module.state_dict())
        return TorchNetwork(module, place, encode), digest, f"weights: those of {place}"
    content, digest = read_weights(weights)
    chosen, note = choose_state_dict(module, content, state, str(weights))
    load_state(module, chosen.tensors, weights)
    return TorchNetwork(module, place, encode), digest, note


def _check_not_random(module: nn.Module, place: str) -> None:
    """Check that another call of `place` gives a network with the parameters of `module`, unless it fails."""
    try:
        again = _make_module(place)
    except ExportError:
        return
    if _digest_of(dict(module.named_parameters())) != _digest_of(dict(again.named_parameters())):
        raise ExportError(
            f"two calls of {place} give networks with different weights, as if these were not trained; give "
            "the file of the trained weights with --weights"
        )


def load_state(module: nn.Module, tensors: Mapping[str, Tensor], file: Path) -> None:
    """Load the tensors, whose names and shapes fit, into the module; an error names `file`.

    Raises:
        ExportError: torch refuses the tensors.
    """
    on_meta = any(values.is_meta for values in (*module.parameters(), *module.buffers()))
    try:
        module.load_state_dict(dict(tensors), strict=False, assign=on_meta)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        raise ExportError(f"{file}: the weights do not fit: {error_line(error)}") from error


def read_encoder(place: str) -> UserEncoder:
    """Return the user's function `package.module:function` after a test call.

    Raises:
        ExportError: the function cannot be imported, fails, or does not return one row for each board.
    """
    encoder = _import_object(place, "--encoder")
    if not callable(encoder):
        raise ExportError(f"--encoder must name a function, got {place} of type {type(encoder).__name__}")
    try:
        made = encoder(torch.zeros((_TEST_BOARDS, 16), dtype=torch.int64))
    except Exception as error:  # the user's code may raise any exception
        raise ExportError(
            f"--encoder {place} fails on exponents of shape [{_TEST_BOARDS}, 16]: {error_line(error)}"
        ) from error
    if not isinstance(made, Tensor) or made.shape[:1] != (_TEST_BOARDS,):
        what = f"the shape {list(made.shape)}" if isinstance(made, Tensor) else f"a {type(made).__name__}"
        raise ExportError(
            f"--encoder {place} must return a tensor of shape [{_TEST_BOARDS}, ...] for exponents of shape "
            f"[{_TEST_BOARDS}, 16], got {what}"
        )
    return encoder  # type: ignore[no-any-return]


def _import_object(place: str, flag: str) -> Any:
    package, colon, name = place.partition(":")
    if not (colon and package and name):
        raise ExportError(f"{flag} must be package.module:callable, got {place!r}")
    if "/" in package or package.endswith(".py"):
        file = Path(package)
        parts = () if file.is_absolute() or ".." in file.parts else file.with_suffix("").parts
        here = f", or write {'.'.join(parts)}:{name} here" if len(parts) > 1 else ""
        raise ExportError(
            f"{flag} takes a module's name, not its file: write {file.stem}:{name} and run the command in "
            f"the folder of {file}{here}"
        )
    if (folder := str(Path.cwd())) not in sys.path:  # as `python -m` does
        sys.path.insert(0, folder)
    try:
        with _no_arguments():
            imported = importlib.import_module(package)
    except (Exception, SystemExit) as error:  # the user's code may raise any exception, or exit as a script
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        if absent is None:
            hint = ""
        elif f"{package}.".startswith(f"{absent}."):
            *parents, last = absent.split(".")
            hint = did_you_mean(last, (found.name for found in iter_modules([str(Path(folder, *parents))])))
        else:
            hint = "; install it in the environment of octofold-export, which runs your code"
        raise ExportError(f"{package} cannot be imported: {error_line(error)}{hint}") from error
    try:
        return getattr(imported, name)
    except AttributeError as error:
        meant = did_you_mean(name, vars(imported))
        raise ExportError(f"{package} has no {name!r}{meant}") from error


@contextmanager
def _no_arguments() -> Iterator[None]:
    """Hide the command's arguments from the user's code, because many scripts parse arguments on import."""
    own, sys.argv = sys.argv, sys.argv[:1]
    try:
        yield
    finally:
        sys.argv = own


def _make_module(place: str) -> nn.Module:
    made = _import_object(place, "--module")
    try:
        with _no_arguments():
            module = made if isinstance(made, nn.Module) else made()
    except (Exception, SystemExit) as error:
        needs_arguments = isinstance(error, TypeError) and "argument" in str(error)
        hint = "; name a function that takes no arguments and returns the module" if needs_arguments else ""
        raise ExportError(f"{place}() fails: {error_line(error)}{hint}") from error
    if not isinstance(module, nn.Module):
        raise ExportError(f"{place}() must return a torch.nn.Module, got {type(module).__name__}")
    return module


def _digest_of(state: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, values in state.items():
        if values.is_meta or is_lazy(values):
            continue  # `TorchNetwork` refuses these tensors
        digest.update(name.encode())
        content = values.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(content.numpy().data)
    return digest.hexdigest()
