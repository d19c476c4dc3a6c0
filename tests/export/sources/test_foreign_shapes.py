"""Foreign networks of many forms: the folded graph makes their moves, or one line says what to change.

The expected moves come from the module itself and from separate encodings in this file.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from octofold_export.checks.folded_graph import FoldedGraph
from octofold_export.description.hints import hints_from_flags
from octofold_export.errors import ExportError
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import head
from octofold_export.sources.described_network import described_source
from octofold_export.sources.source import Source
from octofold_export.sources.torch_network import TorchNetwork
from octofold_export.sources.torch_sources import from_module, read_encoder, read_module
from octofold_game.rules import legal_moves
from support import foreign_networks as networks
from torch import Tensor, nn
from torch.distributions import Categorical

Encode = Callable[[NDArray[np.uint8]], Tensor]

PLACE = "support.foreign_networks"


def exponents(boards: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(boards).long()


def floats(boards: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(boards).float()


def one_hot(boards: NDArray[np.uint8], planes: int = 16) -> Tensor:
    clamped = np.minimum(boards, planes - 1).astype(np.int64)
    return nn.functional.one_hot(torch.from_numpy(clamped), planes).float()


def planes(boards: NDArray[np.uint8]) -> Tensor:
    return one_hot(boards).permute(0, 2, 1).reshape(-1, 16, 4, 4)


def pick(answer: Any) -> Tensor:
    """Return the four numbers of any form of answer."""
    if isinstance(answer, Tensor):
        return answer
    if isinstance(answer, Categorical):
        return answer.logits
    return pick(answer["policy"] if isinstance(answer, dict) else answer.policy)


@dataclass(frozen=True)
class Shape:
    """A network, its input, and the flags of the command."""

    name: str
    encode: Encode
    flags: dict[str, Any] = field(default_factory=dict)
    encoder: str | None = None
    double: bool = False


SHAPES = {
    "EmbeddingBag": Shape("Bagged", exponents),
    "squeeze": Shape("Squeezed", floats, {"reads.kind": "exponents"}),
    "int(x.shape[0])": Shape("IntegerBatchOfTorch", exponents),
    "Categorical": Shape("Samples", floats, {"reads.kind": "exponents"}),
    "no batch": Shape("OneBoardOnly", floats, {"reads.kind": "exponents"}),
    "batch in a list": Shape("LoopsOverBoards", floats, {"reads.kind": "exponents"}),
    "mean over the batch": Shape("MeanOfAll", floats, {"reads.kind": "exponents"}),
    "dataclass": Shape("DataclassAnswer", floats, {"reads.kind": "exponents"}),
    "float64": Shape(
        "Squeezed", lambda boards: floats(boards).double(), {"reads.kind": "exponents"}, double=True
    ),
    "encoder": Shape(
        "OfThreeNumbersACell",
        lambda boards: networks.value_row_column(exponents(boards)),
        encoder=f"{PLACE}:value_row_column",
    ),
}


def source_of(shape: Shape, module: nn.Module, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setattr(networks, "made", module, raising=False)
    hints = hints_from_flags({"answers.kind": "policy_logits", **shape.flags})
    return from_module(f"{PLACE}:made", None, hints, None, shape.encoder)


def folded(source: Source) -> FoldedGraph:
    value = None if source.description.answers.value is None else source.description.answers.points
    return FoldedGraph(fold(head(source.description, source.fp32), "vote", 1, value_scale=value))


SLOW = ("int(x.shape[0])",)
"""Names of networks that torch takes long to convert."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in SLOW else []) for name in SHAPES]
)
def test_the_graph_plays_the_moves_of_the_module(
    name: str, boards: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = SHAPES[name]
    torch.manual_seed(4)
    module = getattr(networks, shape.name)().eval()
    if shape.double:
        module = module.double()
    graph = folded(source_of(shape, module, monkeypatch))
    asked = boards[:200]
    with torch.no_grad():
        rows = [pick(module(shape.encode(board[None]))).reshape(4) for board in asked]
    numbers = torch.stack(rows).double().numpy()
    expected = np.where(legal_moves(asked), numbers, -np.inf).argmax(axis=1)
    for batch in (1, 64):
        assert np.mean(graph.answer(asked, batch).move == expected) > 0.99


def test_the_output_value_is_the_mean_of_a_value_head_over_the_views(boards: NDArray[np.uint8]) -> None:
    torch.manual_seed(4)
    module = networks.DataclassAnswer().eval()
    hints = hints_from_flags(
        {"answers.kind": "policy_logits", "reads.kind": "exponents", "answers.scale": 100.0}
    )
    source = described_source(TorchNetwork(module, "heads"), hints, {}, "")
    assert (source.description.answers.output, source.description.answers.value) == ("policy", "value")
    points = source.description.answers.points
    graph = FoldedGraph(fold(head(source.description, source.fp32), "vote", 4, value_scale=points))
    asked = boards[:50]
    square = asked.reshape(-1, 4, 4)
    views = [np.rot90(square, turns, (1, 2)).reshape(-1, 16).copy() for turns in range(4)]
    with torch.no_grad():
        values = np.mean([module(floats(view)).value.numpy() for view in views], axis=0)
    answered = graph.answer(asked).value
    assert answered is not None
    np.testing.assert_allclose(answered, 100 * values, rtol=1e-4, atol=1e-4)


def test_tiles_beyond_the_planes_are_refused_or_clamped_as_described(
    boards: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(4)
    module = nn.Sequential(nn.Flatten(), nn.Linear(192, 4)).eval()
    refused = Shape("", planes, {"reads.layout": "flat", "reads.planes": 12})
    assert source_of(refused, module, monkeypatch).description.largest_exponent == 11
    clamped = Shape("", planes, {**refused.flags, "reads.above": "clamped"})
    source = source_of(clamped, module, monkeypatch)
    assert source.description.largest_exponent == 17
    asked = boards[boards.max(axis=1) > 11][:200]
    with torch.no_grad():
        numbers = module(one_hot(asked, 12)).double().numpy()
    expected = np.where(legal_moves(asked), numbers, -np.inf).argmax(axis=1)
    assert np.mean(folded(source).next_moves(asked) == expected) > 0.99


def test_a_forward_that_branches_on_values_gives_one_line_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape = Shape("DecidesByNumbers", floats, {"reads.kind": "exponents"})
    with pytest.raises(ExportError, match=r"branches on the values of tensors.*use torch\.where instead"):
        source_of(shape, networks.DecidesByNumbers(), monkeypatch)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (networks.AlwaysDrops, "answers the same boards differently each time"),
        (networks.NamesTheMove, "is the index of a move; remove its ArgMax"),
        (
            networks.LooksUpInLists,
            "the network's forward loops over the boards of a batch; on one board at a time: ",
        ),
    ],
)
def test_a_network_that_cannot_become_a_graph_gives_a_one_line_error(
    module: Callable[[], nn.Module], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ExportError, match=message):
        source_of(Shape("", floats, {"reads.kind": "exponents"}), module(), monkeypatch)


def test_a_module_that_reads_the_command_line_gets_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "with_arguments.py").write_text(
        "import argparse\nfrom torch import nn\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--lr', type=float)\nprint(parser.parse_args())\nNet = nn.Flatten\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "argv", ["octofold-export", "--module", "with_arguments:Net"])
    assert isinstance(read_module("with_arguments:Net", None)[0].module, nn.Flatten)
    assert sys.argv[1] == "--module"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("no_such_package:encode", "no_such_package cannot be imported"),
        (f"{PLACE}:of_one_board", r"fails on exponents of shape \[3, 16\]: RuntimeError: shape '\[16\]' is"),
    ],
)
def test_an_unusable_encoder_gives_a_one_line_error(place: str, message: str) -> None:
    with pytest.raises(ExportError, match=message):
        read_encoder(place)
