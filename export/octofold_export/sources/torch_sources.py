"""Networks of PyTorch: modules, their weights, and the files of whole networks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from octofold_export.description.hints import AnswersHints, Hints, ReadsHints, merged
from octofold_export.description.inference import NoBatchError
from octofold_export.errors import ExportError, NeedsFlags
from octofold_export.sources.described import Describe, by_defaults, described_source, from_file
from octofold_export.sources.module_file import read_module
from octofold_export.sources.sb3 import read_sb3
from octofold_export.sources.source import Source
from octofold_export.sources.torch_network import TorchNetwork, read_exported_program, read_torchscript

_EXPONENTS = ReadsHints(kind="exponents", layout="flat", type="int64")
"""What an encoder is given."""


def from_module(
    place: str,
    weights: Path | None,
    hints: Hints,
    state: str | None = None,
    encoder: str | None = None,
    describe: Describe = by_defaults,
) -> Source:
    """Load the module that `package.module:callable` makes, and a `state` of its weights.

    With an `encoder`, the network reads exponents, and the user's function makes the module's input of them.

    Raises:
        ExportError: it cannot be used.
    """
    network, digest, notes = read_module(place, weights, state, encoder)
    architecture = {"kind": "torch module", "module": place}
    if encoder is not None:
        architecture["encoder"] = encoder
        hints = merged(Hints(reads=_EXPONENTS), hints)
    try:
        source = described_source(network, hints, architecture, digest, describe)
    except NoBatchError as error:
        notes += (
            "its forward takes one board at a time; the graph computes each board of a batch by itself",
        )
        try:
            source = described_source(network.one_by_one(), hints, architecture, digest, describe)
        except NeedsFlags:
            raise
        except ExportError as failure:
            raise ExportError(f"{error}; one board at a time, {failure}") from error
    return replace(source, notes=notes)


def from_sb3(file: Path, hints: Hints, describe: Describe = by_defaults) -> Source:
    """Load a standard policy of Stable-Baselines3.

    Raises:
        ExportError: it cannot be used.
    """
    module, kind, digest, note = read_sb3(file)
    known = AnswersHints(kind="action_values" if kind == "action_values" else "policy_logits")
    network = TorchNetwork(module, str(file))
    architecture = {"kind": "Stable-Baselines3", "file": file.name}
    source = described_source(network, merged(hints, Hints(answers=known)), architecture, digest, describe)
    return replace(source, notes=(note,))


from_torchscript = partial(from_file, read_torchscript, "TorchScript")
from_exported_program = partial(from_file, read_exported_program, "exported program")
