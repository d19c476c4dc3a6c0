"""The options of `octofold-export`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from octofold_game.commands.options import File, Folder, Kind, Percentage, WrongValue, option, whole_number
from octofold_game.contract.model import PRECISIONS, Precision, Rule
from octofold_game.contract.results import FIRST_GAMES

from octofold_export.description.description import (
    NUMBER_LAYOUTS,
    ONE_HOT_LAYOUTS,
    Above,
    AnswerKind,
    CellOrder,
    InputKind,
    Layout,
)

AUTO = "auto"
"""The value of --symmetries with which games choose the number of views."""
DESCRIPTION = {
    **{name: f"reads.{name}" for name in ("layout", "type", "planes", "cells", "divide_by", "above")},
    **{name: f"answers.{name}" for name in ("output", "actions", "scale", "value")},
    **{"input": "reads.kind", "no_empty_plane": "reads.empty_plane", "answer": "answers.kind"},
    "largest_exponent": "largest_exponent",
}
"""Fields of a network's description, keyed by option. A field is a path, such as `reads.kind`."""

_MEGABYTES = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")


def _games(text: str) -> int:
    if (games := whole_number(text)) is not None and games <= FIRST_GAMES:
        raise WrongValue(
            f"the number of games must be above {FIRST_GAMES}, got {games}: the first {FIRST_GAMES} "
            "games only set the cap on the scores"
        )
    return int(text)


def _megabytes(text: str) -> float:
    if not _MEGABYTES.fullmatch(text) or not float(text):
        raise ValueError
    return float(text)


def _precisions(text: str) -> frozenset[str]:
    named = frozenset(text.split(","))
    if not {"fp32"} <= named <= set(PRECISIONS):
        raise ValueError
    return named


Limit = Annotated[int, Kind(_games, f"an integer above {FIRST_GAMES}", "N", True)]
Megabytes = Annotated[float, Kind(_megabytes, "a number of megabytes, such as 20", "MB", True)]
Precisions = Annotated[
    frozenset[Precision], Kind(_precisions, "a list of fp32 and optionally int8 and fp16", "LIST", True)
]
Actions = Annotated[list[str], Kind(lambda text: text.split(","), "four names", "LIST", True)]


@dataclass
class Flags:
    """The options of an export."""

    checkpoint: Folder | None = option(
        None, "checkpoint folder of octofold-train", exclusive_group="source", heading="what to export"
    )
    ntuple: Folder | None = option(
        None,
        "folder of an n-tuple network, or a weight file of TDL2048",
        metavar="PATH",
        exclusive_group="source",
    )
    module: str | None = option(
        None,
        "PyTorch callable that returns the module, such as a class; see --weights",
        metavar="PACKAGE.MODULE:CALLABLE",
        exclusive_group="source",
    )
    torchscript: File | None = option(
        None, "TorchScript file of torch.jit.save, from a source that you trust", exclusive_group="source"
    )
    onnx: File | None = option(
        None, "ONNX file; its weights may be in files beside it", exclusive_group="source"
    )
    sb3: File | None = option(
        None,
        "model of Stable-Baselines3 with an MlpPolicy; for another network, use --module and --weights",
        metavar="FILE.zip",
        exclusive_group="source",
    )
    player: str | None = option(
        None,
        "local player to publish, such as expectimax:depth=4; docs/players.md lists the players",
        metavar="SPEC",
        exclusive_group="source",
    )
    record_strength: File | None = option(
        None,
        "result of an evaluation to write into the card of a published version; exports nothing",
        metavar="RESULT.json",
        exclusive_group="source",
    )
    max_megabytes: Megabytes | None = option(
        None,
        "maximum size of the graph, which then contains only the most important table entries; only with "
        "--ntuple (default: all entries, in a file beside the graph)",
    )
    weights: File | None = option(
        None,
        "file with the weights of --module: .safetensors, a checkpoint of torch.save, or a .zip of "
        "Stable-Baselines3",
    )
    state: str | None = option(
        None, "name of the set of weights to use if several sets in --weights fit, such as policy_net"
    )
    encoder: str | None = option(
        None,
        "PyTorch function that makes the input of --module from exponents [N, 16] if no --input fits",
        metavar="PACKAGE.MODULE:FUNCTION",
    )
    description: File | None = option(
        None,
        "TOML file with values for the flags below, which take precedence over the file (default: the file "
        "with the network's name and the ending .toml, if it exists)",
        metavar="FILE.toml",
        heading="input and output of the network (games determine what you leave out)",
    )
    input: InputKind | None = option(None, "encoding of the cells in the input")
    layout: Layout | None = option(
        None,
        f"layout of the input; for one-hot cells: {', '.join(ONE_HOT_LAYOUTS)}; "
        f"for numbers: {', '.join(NUMBER_LAYOUTS)}",
        metavar="LAYOUT",
    )
    type: str | None = option(None, "data type of the input, such as float32 or int64", metavar="TYPE")
    planes: int | None = option(None, "number of one-hot planes", metavar="P")
    no_empty_plane: bool | None = option(
        None, "use the first plane for the tile 2 (default: for empty cells)"
    )
    cells: CellOrder | None = option(
        None, "order of the cells: row by row or column by column (default: rows)"
    )
    divide_by: float | None = option(None, "number by which the input is divided", metavar="X")
    above: Above | None = option(
        None,
        "treatment of tiles that are too large for the one-hot planes: refused rejects the board, clamped "
        "reads them as the largest tile that has a plane (default: refused)",
    )
    largest_exponent: int | None = option(
        None,
        "largest exponent that the network reads (default: the exponent of the last one-hot plane, 17 with "
        "--above clamped, or for numbers the largest up to 17 that the network accepts)",
        metavar="E",
    )
    answer: AnswerKind | None = option(None, "meaning of the output")
    output: str | None = option(None, "name of the output to use, if the network has several")
    actions: Actions | None = option(None, "order of the moves in the output, such as up,right,down,left")
    scale: float | None = option(
        None,
        "number of game points that an output of 1 means; required for afterstate_value, changes no move "
        "otherwise",
        metavar="POINTS",
    )
    value: str | None = option(
        None,
        "name of the value head's output (default: the only other output with one number for each board)",
    )
    accept: bool = option(
        False, "publish as described even if the network plays better with another description"
    )
    name: str = option(None, "name of the model (required)", heading="what to publish")
    models: Folder = option(Path("models"), "model repository (default: ./models)")
    version: int | None = option(
        None, "version to publish (default: the newest plus one), or to change", minimum=1, metavar="N"
    )
    extend: bool = option(
        False,
        "add missing --precisions and a missing moves.onnx to the published --version, and measure its "
        "graphs again without changing them",
    )
    rule: Rule | None = option(
        None,
        "decision rule over the views (default: games choose it with --symmetries auto; otherwise vote for "
        "a policy, and mean for a network that gives values)",
    )
    symmetries: Literal["auto", 8, 4, 2, 1] | None = option(
        None,
        "number of views of the board that the network sees: 8 (all), 4 (the rotations), 2 (the half turn), "
        "1 (the board itself), or auto, which plays games to find the fewest views that lose nothing "
        "(default: 8 for --checkpoint and --ntuple, otherwise auto)",
        metavar="VIEWS",
    )
    precisions: Precisions | None = option(
        None,
        "precisions to publish: fp32, and optionally int8 for CPUs and fp16 for GPUs, such as fp32,int8,fp16 "
        "(default: fp32,int8; only fp32 for an n-tuple network and for 50 million weights or more)",
    )
    views_output: bool = option(False, "add the output `views`: the probabilities of each view")
    boards: File | None = option(
        None,
        "file of recorded boards, uint8 of shape [M, 16], to calibrate int8 and to check graphs on (default: "
        "boards from the network's games)",
        metavar="FILE.npy",
    )
    no_worse_than: Percentage | None = option(
        None,
        "play full games against the newest published version of --name, and publish only if they show that "
        "the new version is at most X% worse (needs the extra `server`)",
        heading="how strong the new version must be",
    )
    limit: Limit = option(10_000, "maximum number of games of each version with --no-worse-than")
