"""`octofold-export`: publishes a trained network as a model, or puts a measured strength into its card."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from octofold_export.compact_source import from_ntuple_compactly
from octofold_export.errors import ExportError
from octofold_export.export import FILES, ExportOptions, export
from octofold_export.sources import Source, from_checkpoint, from_ntuple
from octofold_export.strength import record_strength

_EPILOG = """\
The graph takes raw boards and plays legal 2048 in any ONNX runtime. It is published only if it answers as the
network does, turns its answer when the board is turned, and in int8 leaves 99% of the moves as they are.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1 for a failure, 2 for wrong usage, 130 after Ctrl-C."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if parsed.max_megabytes is not None and parsed.ntuple is None:
        parser.error("--max-megabytes needs --ntuple")
    try:
        if parsed.record_strength is not None:
            if parsed.version is None:
                parser.error("--record-strength needs --version")
            folder = record_strength(parsed.models, parsed.name, parsed.version, parsed.record_strength)
        else:
            folder = export(_source(parsed), _options(parsed, parser), _report)
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
    if parsed.ntuple is not None and parsed.max_megabytes is not None:
        return partial(from_ntuple_compactly, parsed.ntuple, int(parsed.max_megabytes * 1e6))
    if parsed.ntuple is not None:
        return partial(from_ntuple, parsed.ntuple)
    return partial(from_checkpoint, parsed.checkpoint)


def _options(parsed: argparse.Namespace, parser: argparse.ArgumentParser) -> ExportOptions:
    precisions = None if parsed.precisions is None else set(parsed.precisions.split(","))
    if precisions is not None and not {"fp32"} <= precisions <= FILES.keys():
        parser.error(f"--precisions {parsed.precisions}: allowed are fp32 and, after it, int8 and fp16")
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="octofold-export",
        description="Publish a trained network as a model that plays 2048 from raw boards.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--checkpoint", type=Path, metavar="DIR", help="folder of the checkpoint to publish")
    task.add_argument("--ntuple", type=Path, metavar="DIR", help="folder of the n-tuple network to publish")
    task.add_argument(
        "--record-strength",
        type=Path,
        metavar="RESULT.json",
        help="instead: put an evaluation's result into the card of a published version",
    )
    parser.add_argument(
        "--max-megabytes",
        type=float,
        metavar="MB",
        help="with --ntuple: keep the entries that matter most, in a graph of at most this size "
        "(default: all entries, in a file beside the graph)",
    )
    parser.add_argument("--name", required=True, help="of the model")
    parser.add_argument(
        "--models",
        type=Path,
        default=Path("models"),
        metavar="DIR",
        help="model repository (default: ./models)",
    )
    parser.add_argument("--version", type=_version, metavar="N", help="default: one more than the newest")
    parser.add_argument(
        "--rule",
        choices=["vote", "mean"],
        help="how the views' answers become a move: by votes, or by their mean "
        "(default: vote for a policy, mean for values)",
    )
    parser.add_argument(
        "--symmetries",
        type=int,
        choices=[8, 1],
        default=8,
        help="views of the board that the network sees (default: 8)",
    )
    parser.add_argument(
        "--precisions",
        metavar="LIST",
        help="fp32, or with int8 for CPUs, fp16 for GPUs or both: fp32,int8,fp16 (default: fp32,int8; fp32 "
        "for an n-tuple network, which has no other)",
    )
    parser.add_argument(
        "--boards",
        type=Path,
        metavar="FILE.npy",
        help="recorded boards [M, 16] uint8 to calibrate and check on (default: the network plays games)",
    )
    return parser


def _version(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
