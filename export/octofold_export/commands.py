"""What `octofold-export` does once its flags are checked: publish a version, or say more about one."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from octofold_export.description.hints import Hints, merged, read_hints
from octofold_export.export import export
from octofold_export.extension import extend
from octofold_export.planning import ExportOptions
from octofold_export.publishing.contest import Contest
from octofold_export.publishing.signing import sign_published, signing_key
from octofold_export.publishing.strength import record_strength
from octofold_export.sources.checkpoint import from_checkpoint
from octofold_export.sources.compact_ntuple import from_ntuple_compactly
from octofold_export.sources.described import (
    from_exported_program,
    from_module,
    from_onnx,
    from_sb3,
    from_torchscript,
)
from octofold_export.sources.ntuple import from_ntuple
from octofold_export.sources.source import Source
from octofold_export.tasks import report_line, run_task

if TYPE_CHECKING:  # an optional extra
    from octofold_game.contract.signatures import SigningKey


def run(parsed: argparse.Namespace) -> int:
    """Do what the flags ask for, and return the exit code of `octofold_export.cli.main`."""
    return run_task(partial(_folder, parsed))


def _folder(parsed: argparse.Namespace) -> Path:
    """Do what the flags ask for; returns the folder of the version."""
    key = signing_key(parsed.sign, parsed.sign_password_file)
    if parsed.record_strength is not None:
        return record_strength(parsed.models, parsed.name, parsed.version, parsed.record_strength, key)
    if parsed.only_signs:
        assert key is not None
        folder: Path = parsed.models / parsed.name / str(parsed.version)
        sign_published(folder, key)
        return folder
    if parsed.extend:
        return extend(_source(parsed), _options(parsed, key), report_line)
    return export(_source(parsed), _options(parsed, key), report_line)


def _source(parsed: argparse.Namespace) -> Callable[[], Source]:
    """Loads what the flags name. Reads the description at once: a wrong one is found before any work."""
    if parsed.ntuple is not None and parsed.max_megabytes is not None:
        return partial(from_ntuple_compactly, parsed.ntuple, int(parsed.max_megabytes * 1e6))
    if parsed.ntuple is not None:
        return partial(from_ntuple, parsed.ntuple)
    if parsed.checkpoint is not None:
        return partial(from_checkpoint, parsed.checkpoint)
    if parsed.module is not None:
        hints = _hints(parsed, parsed.weights)
        return partial(from_module, parsed.module, parsed.weights, hints, parsed.state, parsed.encoder)
    if parsed.torchscript is not None:
        return partial(from_torchscript, parsed.torchscript, _hints(parsed, parsed.torchscript))
    if parsed.exported_program is not None:
        file = parsed.exported_program
        return partial(from_exported_program, file, _hints(parsed, file))
    if parsed.sb3 is not None:
        return partial(from_sb3, parsed.sb3, _hints(parsed, parsed.sb3))
    return partial(from_onnx, parsed.onnx, _hints(parsed, parsed.onnx))


def _hints(parsed: argparse.Namespace, file: Path | None) -> Hints:
    """The flags, over the TOML file that they name, or that lies beside the network's file."""
    flags: Hints = parsed.description_flags
    if parsed.description is not None:
        return merged(flags, read_hints(parsed.description))
    if file is None or not file.name:
        return flags
    beside = file.with_suffix(".toml")
    return merged(flags, read_hints(beside)) if beside.exists() else flags


def _options(parsed: argparse.Namespace, key: SigningKey | None) -> ExportOptions:
    return ExportOptions(
        name=parsed.name,
        models=parsed.models,
        version=parsed.version,
        rule=parsed.rule,
        symmetries=parsed.symmetries,
        precisions=parsed.precisions,
        with_views=parsed.views_output,
        boards=parsed.boards,
        judge=parsed.judge,
        accept=parsed.accept,
        contest=None if parsed.no_worse_than is None else Contest(parsed.no_worse_than, parsed.limit),
        sign=key,
    )
