"""`octofold-export`: publish a trained network as a model, or say more about a model that is published.

The flags, and the messages for wrong ones. Neither torch nor onnx is imported before the flags are right, so
`--help` is quick and works where they are missing.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import get_args

from octofold_game.commands.command_line import Parser
from octofold_game.commands.completion import add_completion
from octofold_game.commands.extras import install_command
from octofold_game.commands.options import whole_number
from octofold_game.contract.model import PRECISIONS, Rule

from octofold_export.description.description import (
    NUMBER_LAYOUTS,
    ONE_HOT_LAYOUTS,
    Above,
    AnswerKind,
    Answers,
    CellOrder,
    InputKind,
    Layout,
    Reads,
)
from octofold_export.description.hints import hints_from_flags
from octofold_export.errors import ExportError
from octofold_export.graph.views import VIEWS
from octofold_export.publishing.contest import FIRST_GAMES
from octofold_export.publishing.versions import check_name

_SOURCES = ("checkpoint", "ntuple", "module", "torchscript", "exported_program", "onnx", "sb3", "player")
_FIELDS = (
    *(f"reads.{field}" for field in Reads.__struct_fields__),
    *(f"answers.{field}" for field in Answers.__struct_fields__),
    "largest_exponent",
)
"""Flags that are fields of a description, by their paths in it."""

_OF_A_NEW_VERSION = ("symmetries", "rule", "views-output", "judge", "accept", "no-worse-than")
"""Flags that --extend would ignore: it keeps the graphs, and a published description was checked already."""
_OF_AN_EXPORT = ("extend", "precisions", "boards")
"""Flags that --extend reads, but --record-strength would ignore, too."""
_OF_A_MODULE = ("weights", "encoder")
_AUTO = "auto"
"""Of --symmetries."""

_PERCENT = re.compile(r"[0-9]{1,2}(\.[0-9]{1,6})?%")
_MEGABYTES = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
_EPILOG = """\
The published graph takes raw boards and returns legal moves in any ONNX runtime. It is published only if it
gives the network's own answers and turns its answer when the board is turned; int8 and fp16 only if they keep
99% of the moves. docs/export.md describes every source and every field of a description.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code.

    It is 0, 1 for a failure, 3 if games did not show that the version is strong enough, and 130 after Ctrl-C.
    Wrong usage raises `SystemExit` with code 2.
    """
    parsed = parse(arguments)
    try:
        if parsed.player is not None:  # needs neither torch nor onnx
            from octofold_export.player_export import run
        else:
            from octofold_export.commands import run
    except ModuleNotFoundError as error:
        remedy = f"run {install_command('export' if parsed.player is None else 'players')}"
        print(f"octofold-export: {error.name} is not installed; {remedy}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # the imports take seconds
        print("octofold-export: interrupted; nothing was published", file=sys.stderr)
        return 130
    return run(parsed)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read and check the flags.

    Raises:
        SystemExit: with code 2, after one line on standard error, if they are wrong.
    """
    parser = _parser()
    parsed = parser.parse_args(arguments)
    has_task = any(getattr(parsed, task) is not None for task in (*_SOURCES, "record_strength"))
    parsed.only_signs = parsed.sign is not None and parsed.version is not None and not has_task
    if not has_task and not parsed.only_signs:
        flags = ", ".join(f"--{task.replace('_', '-')}" for task in _SOURCES)
        parser.error(
            f"nothing to export: use one of {flags} (or --record-strength, or --sign with --version)"
        )
    if parsed.name is None:
        parser.error("--name is required: the name of the model")
    if parsed.record_strength is not None and parsed.version is None:
        parser.error("--record-strength needs --version")
    if parsed.extend and parsed.version is None:
        parser.error("--extend needs --version")
    _check_task(parser, parsed)
    if parsed.symmetries == _AUTO:
        if parsed.checkpoint is not None or parsed.ntuple is not None:
            parser.error("--symmetries auto is for networks that octofold-train did not make")
        parsed.symmetries = None
    if parsed.sign_password_file is not None and parsed.sign is None:
        parser.error("--sign-password-file needs --sign")
    for flag in _OF_A_MODULE:
        if (value := vars(parsed)[flag]) is not None and parsed.module is None:
            parser.error(f"--{flag} {value} needs --module package.module:callable")
    if parsed.state is not None and parsed.weights is None:
        parser.error("--state needs --weights")
    if parsed.max_megabytes is not None and parsed.ntuple is None:
        parser.error("--max-megabytes needs --ntuple")
    if parsed.player is not None:
        _check_player(parser, parsed)
    fields = {name: value for name, value in vars(parsed).items() if name in _FIELDS and value is not None}
    described = fields or parsed.description is not None
    for source in ("checkpoint", "ntuple", "player"):
        if described and vars(parsed)[source] is not None:
            parser.error(f"--{source} needs no description: remove its flags")
    try:
        check_name(parsed.name)
        parsed.description_flags = hints_from_flags(fields)
    except ExportError as error:
        parser.error(str(error))
    return parsed


def _check_task(parser: Parser, parsed: argparse.Namespace) -> None:
    """Refuse flags that --extend or --record-strength would ignore."""

    def given(flags: tuple[str, ...]) -> str | None:
        named = (flag for flag in flags if vars(parsed)[flag.replace("-", "_")] not in (None, False))
        return next(named, None)

    if parsed.record_strength is not None and (flag := given(_OF_AN_EXPORT)):
        parser.error(f"--{flag} is for an export; --record-strength exports nothing")
    if (parsed.record_strength is not None or parsed.extend) and (flag := given(_OF_A_NEW_VERSION)):
        task = "--extend" if parsed.extend else "--record-strength"
        parser.error(f"--{flag} is for a new version; {task} publishes none")


def _check_player(parser: Parser, parsed: argparse.Namespace) -> None:
    """Refuse flags that --player would ignore."""
    for flag in ("encoder", *_OF_AN_EXPORT, *_OF_A_NEW_VERSION):
        if vars(parsed)[flag.replace("-", "_")] not in (None, False):
            parser.error(f"--{flag} is for networks, and --player is none")


def _parser() -> Parser:
    parser = Parser(
        prog="octofold-export",
        usage="octofold-export SOURCE --name NAME [options]",
        description="Publish a trained network as a model that plays 2048 from raw boards.",
        epilog=_EPILOG,
    )
    add_completion(parser)
    _add_sources(parser)
    description = parser.add_argument_group(
        "how the network reads a board and what it answers (the export infers what it can)"
    )
    _add_reads(description)
    _add_answers(description)
    _add_check(description)
    _add_choices(parser)
    _add_contest(parser)
    return parser


def _add_sources(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to export")
    source = group.add_mutually_exclusive_group()
    source.add_argument("--checkpoint", type=Path, metavar="DIR", help="checkpoint folder of octofold-train")
    source.add_argument("--ntuple", type=Path, metavar="DIR", help="folder of an n-tuple network")
    source.add_argument(
        "--module",
        metavar="PACKAGE.MODULE:CALLABLE",
        help="PyTorch callable that returns the module, such as a class; see --weights",
    )
    source.add_argument(
        "--torchscript", type=Path, metavar="FILE", help="file of torch.jit.save that you trust"
    )
    source.add_argument(
        "--exported-program",
        type=Path,
        metavar="FILE.pt2",
        help="file of torch.export.save that you trust: it can run code",
    )
    source.add_argument(
        "--onnx", type=Path, metavar="FILE", help="ONNX file; its tensors may be in files beside it"
    )
    source.add_argument(
        "--sb3",
        type=Path,
        metavar="FILE.zip",
        help="model of Stable-Baselines3 with an MlpPolicy; for another network, use --module and --weights",
    )
    source.add_argument(
        "--player",
        metavar="SPEC",
        help="local player to be served, such as expectimax:depth=4; docs/players.md lists them",
    )
    source.add_argument(
        "--record-strength",
        type=Path,
        metavar="RESULT.json",
        help="result of an evaluation to write into the card of a published version; exports nothing",
    )
    group.add_argument(
        "--max-megabytes",
        type=_megabytes,
        metavar="MB",
        help="maximum size of the graph, which then contains only the most important entries; only with "
        "--ntuple (default: all entries, in a file beside the graph)",
    )
    group.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="weights of --module: .safetensors, a checkpoint of torch.save, or a .zip of Stable-Baselines3",
    )
    group.add_argument(
        "--state",
        metavar="NAME",
        help="weights to take, if the file has several sets that fit, such as policy_net and target_net",
    )
    group.add_argument(
        "--encoder",
        metavar="PACKAGE.MODULE:FUNCTION",
        help="PyTorch function that makes the input of --module from exponents [N, 16], if no --input fits",
    )


def _add_reads(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--description",
        type=Path,
        metavar="FILE.toml",
        help="file with these fields (default: the network's file with the ending .toml, if it exists)",
    )
    group.add_argument("--input", dest="reads.kind", choices=get_args(InputKind), help="kind of the cells")
    group.add_argument(
        "--layout",
        dest="reads.layout",
        choices=get_args(Layout),
        metavar="LAYOUT",
        help=f"layout; one-hot cells: {', '.join(ONE_HOT_LAYOUTS)}; numbers: {', '.join(NUMBER_LAYOUTS)}",
    )
    group.add_argument(
        "--type", dest="reads.type", metavar="TYPE", help="type of the input, such as float32 or int64"
    )
    group.add_argument(
        "--planes", dest="reads.planes", type=int, metavar="P", help="number of one-hot planes"
    )
    group.add_argument(
        "--no-empty-plane",
        dest="reads.empty_plane",
        action="store_const",
        const=False,
        help="use the first plane for the tile 2 (default: for empty cells)",
    )
    group.add_argument(
        "--cells",
        dest="reads.cells",
        choices=get_args(CellOrder),
        help="order of the cells: row by row or column by column (default: rows)",
    )
    group.add_argument(
        "--divide-by",
        dest="reads.divide_by",
        type=float,
        metavar="X",
        help="divisor of the numbers (default: 1)",
    )
    group.add_argument(
        "--above",
        dest="reads.above",
        choices=get_args(Above),
        help="what happens to tiles above the last one-hot plane: their boards are refused, or they are "
        "read as the largest tile that has a plane (default: refused)",
    )
    group.add_argument(
        "--largest-exponent",
        type=int,
        metavar="E",
        help="largest exponent that the network accepts (default: the largest that its planes show, or 17)",
    )


def _add_answers(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--answer",
        dest="answers.kind",
        choices=get_args(AnswerKind),
        help="kind of the output",
    )
    group.add_argument(
        "--output", dest="answers.output", metavar="NAME", help="output to use, if the network has several"
    )
    group.add_argument(
        "--actions",
        dest="answers.actions",
        type=lambda text: text.split(","),
        metavar="LIST",
        help="order of the four numbers (default: up,right,down,left)",
    )
    group.add_argument(
        "--scale",
        dest="answers.scale",
        type=float,
        metavar="POINTS",
        help="points of the game for a value of 1; required for afterstate_value, changes no move elsewhere",
    )
    group.add_argument(
        "--value",
        dest="answers.value",
        metavar="NAME",
        help="output with one number, the value of the board (default: the only further output of this kind)",
    )


def _add_check(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--judge",
        type=Path,
        metavar="DIR",
        help="published version to check the description against (default: the strongest of --models, "
        "otherwise a search)",
    )
    group.add_argument("--accept", action="store_true", help="publish even if the description seems wrong")


def _add_choices(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to publish")
    group.add_argument("--name", help="name of the model (required)")
    group.add_argument(
        "--models",
        type=Path,
        default=Path("models"),
        metavar="DIR",
        help="model repository (default: ./models)",
    )
    group.add_argument(
        "--version", type=_positive, metavar="N", help="version to publish (default: the newest plus one)"
    )
    group.add_argument(
        "--extend",
        action="store_true",
        help="add --precisions that the published --version lacks, and measure again those that it "
        "has; its graphs do not change",
    )
    group.add_argument(
        "--rule",
        choices=get_args(Rule),
        help="decision rule over the views (default: vote for a policy, mean for values)",
    )
    group.add_argument(
        "--symmetries",
        type=_symmetries,
        metavar="VIEWS",
        help="number of views of the board that the network sees: 8 (all), 4 (the rotations), 2 (the half "
        "turn), 1 (the board itself), or auto: the fewest that lose nothing in games (default: 8 for what "
        "octofold-train made, otherwise auto)",
    )
    group.add_argument(
        "--precisions",
        type=_precisions,
        metavar="LIST",
        help="precisions to publish: fp32, and optionally int8 for CPUs and fp16 for GPUs, such as "
        "fp32,int8,fp16 (default: fp32,int8; only fp32 for an n-tuple network)",
    )
    group.add_argument(
        "--views-output",
        action="store_true",
        help="add the output `views`: the probabilities of each view",
    )
    group.add_argument(
        "--boards",
        type=Path,
        metavar="FILE.npy",
        help="recorded boards [M, 16] uint8 to calibrate and check on (default: boards from the network's "
        "games)",
    )
    group.add_argument(
        "--sign",
        type=Path,
        metavar="KEY.pem",
        help="sign the version with this private key, for octofold-serve --verify-models; without a source, "
        "sign the published --version",
    )
    group.add_argument(
        "--sign-password-file",
        type=Path,
        metavar="FILE",
        help="file with the password of an encrypted key (default: the variable OCTOFOLD_SIGN_PASSWORD)",
    )


def _add_contest(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how strong it must be")
    group.add_argument(
        "--no-worse-than",
        type=_margin,
        metavar="X%",
        help="play full games against the newest published version of --name, and publish only if they show "
        "that the new one is at most X%% worse (needs the extra server)",
    )
    group.add_argument(
        "--limit",
        type=_limit,
        default=10_000,
        metavar="N",
        help="maximum number of games of each version with --no-worse-than (default: %(default)s)",
    )


def _symmetries(text: str) -> int | str:
    if text == _AUTO or (text.isdecimal() and int(text) in VIEWS):
        return text if text == _AUTO else int(text)
    raise argparse.ArgumentTypeError(f"invalid choice: {text[:40]} (choose from {_AUTO}, 8, 4, 2, 1)")


def _margin(text: str) -> str:
    if _PERCENT.fullmatch(f"{text}%"):
        raise argparse.ArgumentTypeError(f"{text} has no percent sign: write {text}% for {text} in a hundred")
    if not _PERCENT.fullmatch(text) or not text.strip("0.%"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage above 0% and below 100%, such as 2%")
    return text


def _limit(text: str) -> int:
    if (number := _positive(text)) <= FIRST_GAMES:
        raise argparse.ArgumentTypeError(
            f"{number} games cannot decide anything: the first {FIRST_GAMES} only set the cap of the scores"
        )
    return number


def _megabytes(text: str) -> float:
    if not _MEGABYTES.fullmatch(text) or not float(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of megabytes, such as 20")
    return float(text)


def _positive(text: str) -> int:
    number = whole_number(text) if text.isascii() else None
    if not number:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from 1")
    return number


def _precisions(text: str) -> frozenset[str]:
    named = frozenset(text.split(","))
    if not {"fp32"} <= named <= set(PRECISIONS):
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are fp32 and, after it, int8 and fp16")
    return named


if __name__ == "__main__":
    sys.exit(main())
