"""Networks of PyTorch: modules, their weights, and the files of whole networks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from octofold_game.contract.model import Evidence

from octofold_export.checks.recording import Report, silent
from octofold_export.description.description import Description
from octofold_export.description.hints import AnswersHints, Hints, ReadsHints, merged
from octofold_export.description.inference import NoBatchError
from octofold_export.errors import ExportError, NeedsFlags
from octofold_export.sources.described import (
    Describe,
    TrainedNetwork,
    by_defaults,
    described_source,
    from_file,
)
from octofold_export.sources.module_file import read_module
from octofold_export.sources.sb3 import read_sb3
from octofold_export.sources.source import Source
from octofold_export.sources.torch_network import TorchNetwork, read_torchscript

_EXPONENTS = ReadsHints(kind="exponents", layout="flat", type="int64")
"""What an encoder is given."""


def on_one_thread(describe: Describe) -> Describe:
    """The same with one thread of torch, since threads that share a small batch wait for each other.

    On a machine that does other work, they wait for longer than the batch takes.
    """

    def describe_on_one(hints: Hints, network: TrainedNetwork) -> tuple[Description, Evidence | None]:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return describe(hints, network)
        finally:
            torch.set_num_threads(threads)

    return describe_on_one


def from_module(
    place: str,
    weights: Path | None,
    hints: Hints,
    state: str | None = None,
    encoder: str | None = None,
    describe: Describe = by_defaults,
    report: Report = silent,
) -> Source:
    """Load the module that `package.module:callable` makes, and a `state` of its weights.

    With an `encoder`, the network reads exponents, and the user's function makes the module's input of them.
    `report` receives what was taken where there was a choice.

    Raises:
        ExportError: it cannot be used.
    """
    network, digest, note = read_module(place, weights, state, encoder)
    if note:
        report(note)
    architecture = {"kind": "torch module", "module": place}
    if encoder is not None:
        architecture["encoder"] = encoder
        hints = merged(Hints(reads=_EXPONENTS), hints)
    try:
        return described_source(network, hints, architecture, digest, describe)
    except NoBatchError as error:
        report(f"{error}; so the graph computes each board by itself")
        try:
            return described_source(network.one_by_one(), hints, architecture, digest, describe)
        except NeedsFlags:
            raise
        except ExportError as failure:
            raise ExportError(f"{error}; one board at a time, {failure}") from error


def from_sb3(file: Path, hints: Hints, describe: Describe = by_defaults, report: Report = silent) -> Source:
    """Load a standard policy of Stable-Baselines3. `report` receives what was taken of it.

    Raises:
        ExportError: it cannot be used.
    """
    module, kind, digest, note = read_sb3(file)
    report(note)
    known = AnswersHints(kind="action_values" if kind == "action_values" else "policy_logits")
    network = TorchNetwork(module, str(file))
    architecture = {"kind": "Stable-Baselines3", "file": file.name}
    return described_source(network, merged(hints, Hints(answers=known)), architecture, digest, describe)


from_torchscript = partial(from_file, read_torchscript, "TorchScript")
