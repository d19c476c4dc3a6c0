"""`octofold-export`: publish a trained network as a model, or put a measured strength into its card.

The flags, and the messages for wrong ones. Neither torch nor onnx is imported before the flags are right, so
`--help` is quick and works where they are missing.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from pathlib import Path
from typing import NoReturn

PRECISIONS = ("fp32", "int8", "fp16")

_EPILOG = """\
The graph takes raw boards and plays legal 2048 in any ONNX runtime. It is published only if it answers as the
network does, turns its answer when the board is turned, and in int8 leaves 99% of the moves as they are.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1 for a failure, 130 after Ctrl-C.

    Wrong usage raises `SystemExit` with code 2.
    """
    parsed = parse(arguments)
    try:
        from octofold_export import commands
    except ModuleNotFoundError as error:
        remedy = "in a clone, run `make .venv/dev`; elsewhere, install octofold[export]"
        print(f"octofold-export: {error.name} is not installed; {remedy}", file=sys.stderr)
        return 1
    return commands.run(parsed)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The flags, checked. Raises `SystemExit` with code 2, after one line on stderr, if they are wrong."""
    parser = _parser()
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.error(_unknown(unknown[0], parser))
    if parsed.checkpoint is None and parsed.ntuple is None and parsed.record_strength is None:
        parser.error("say what to export: --checkpoint DIR or --ntuple DIR (or --record-strength FILE)")
    if parsed.name is None:
        parser.error("--name is missing: the name of the model")
    if parsed.record_strength is not None and parsed.version is None:
        parser.error("--record-strength needs --version")
    return parsed


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _unknown(argument: str, parser: argparse.ArgumentParser) -> str:
    flag = argument.partition("=")[0]
    known = re.findall(r"--[a-z][a-z0-9-]*", parser.format_help())
    close = difflib.get_close_matches(flag, known, n=1)
    return f"unknown argument {flag!r}" + (f"; did you mean {close[0]}?" if close else "; see --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="octofold-export",
        description="Publish a trained network as a model that plays 2048 from raw boards.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    task = parser.add_mutually_exclusive_group()
    task.add_argument("--checkpoint", type=Path, metavar="DIR", help="folder of the checkpoint to publish")
    task.add_argument("--ntuple", type=Path, metavar="DIR", help="folder of the n-tuple network to publish")
    task.add_argument(
        "--record-strength",
        type=Path,
        metavar="RESULT.json",
        help="publish nothing; put an evaluation's result into the card of a published version",
    )
    parser.add_argument("--name", help="name of the model (required)")
    parser.add_argument(
        "--models",
        type=Path,
        default=Path("models"),
        metavar="DIR",
        help="model repository (default: ./models)",
    )
    parser.add_argument(
        "--version", type=_version, metavar="N", help="version to publish (default: the newest plus one)"
    )
    parser.add_argument(
        "--rule",
        choices=["vote", "mean"],
        help="how the views' answers become a move (default: vote for a policy, mean for values)",
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
        type=_precisions,
        metavar="LIST",
        help="fp32, optionally with int8 for CPUs and fp16 for GPUs, such as fp32,int8,fp16 "
        "(default: fp32,int8; fp32 for an n-tuple network, which has no other)",
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


def _precisions(text: str) -> frozenset[str]:
    named = frozenset(text.split(","))
    if not {"fp32"} <= named <= set(PRECISIONS):
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are fp32 and, after it, int8 and fp16")
    return named


if __name__ == "__main__":
    sys.exit(main())
