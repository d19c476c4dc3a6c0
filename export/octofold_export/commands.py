"""What `octofold-export` does once its flags are checked: publish a version, or record a strength."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial

from octofold_export.errors import ExportError
from octofold_export.export import ExportOptions, export
from octofold_export.publishing.strength import record_strength
from octofold_export.sources.checkpoint import from_checkpoint
from octofold_export.sources.ntuple import from_ntuple
from octofold_export.sources.source import Source


def run(parsed: argparse.Namespace) -> int:
    """Do what the flags ask for and return the exit code: 0, 1 for a failure, 130 after Ctrl-C."""
    try:
        if parsed.record_strength is not None:
            folder = record_strength(parsed.models, parsed.name, parsed.version, parsed.record_strength)
        else:
            folder = export(_source(parsed), _options(parsed), _report)
    except KeyboardInterrupt:
        print("octofold-export: interrupted; nothing was published", file=sys.stderr)
        return 130
    except ExportError as error:
        print(f"octofold-export: {error}", file=sys.stderr)
        return 1
    print(folder)
    return 0


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _source(parsed: argparse.Namespace) -> Callable[[], Source]:
    if parsed.ntuple is not None:
        return partial(from_ntuple, parsed.ntuple)
    return partial(from_checkpoint, parsed.checkpoint)


def _options(parsed: argparse.Namespace) -> ExportOptions:
    precisions = parsed.precisions
    return ExportOptions(
        name=parsed.name,
        models=parsed.models,
        version=parsed.version,
        rule=parsed.rule,
        symmetries=parsed.symmetries,
        int8=None if precisions is None else "int8" in precisions,
        fp16=precisions is not None and "fp16" in precisions,
        boards=parsed.boards,
    )
