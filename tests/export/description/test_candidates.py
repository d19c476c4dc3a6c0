"""Descriptions are inferred from a network, completed by the user, or refused."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_export.description.candidates import complete_without_games
from octofold_export.description.description import ElementType
from octofold_export.description.hints import Hints, hints_from_flags, merged, read_hints
from octofold_export.description.network import NetworkError
from octofold_export.errors import ExportError, NeedsFlags


@dataclass
class Network:
    """A network that takes some shapes of input and answers with ones."""

    takes: Callable[[NDArray[Any]], bool]
    widths: Sequence[int] = (4,)
    shape: Sequence[int | None] | None = None
    type: ElementType | None = None

    def run(self, inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        if not self.takes(inputs):
            raise NetworkError("mat1 and mat2 do not fit")
        return {f"out{at}": -np.ones((len(inputs), width)) for at, width in enumerate(self.widths)}

    def operations(self, _inputs: NDArray[Any]) -> int:
        return 1


LOGITS = {"answers.kind": "policy_logits"}


def describe(network: Network, **flags: Any) -> Any:
    paths = {path.replace("__", "."): value for path, value in flags.items()}
    return complete_without_games(hints_from_flags(LOGITS | paths), network)


def test_planes_and_layout_follow_from_the_only_shape_that_the_network_accepts() -> None:
    description = describe(Network(lambda inputs: inputs.shape[1:] == (12, 4, 4)))
    assert (description.reads.layout, description.reads.planes) == ("channels_first", 12)
    assert description.largest_exponent == 11


def test_a_declared_shape_and_type_determine_the_description() -> None:
    network = Network(lambda inputs: inputs.dtype == np.float64, shape=(None, 4, 4, 15), type="float64")
    description = describe(network)
    assert (description.reads.layout, description.reads.planes) == ("channels_last", 15)
    assert (description.reads.type, description.largest_exponent) == ("float64", 14)


def test_an_embedding_shows_that_it_reads_exponents_and_its_largest_one() -> None:
    def takes(inputs: NDArray[Any]) -> bool:
        return inputs.dtype == np.int64 and inputs.shape[1:] == (16,) and inputs.max(initial=0) < 15

    description = describe(Network(takes))
    assert (description.reads.kind, description.reads.type) == ("exponents", "int64")
    assert description.largest_exponent == 14


def test_the_user_must_choose_the_layout_of_flat_one_hot_cells() -> None:
    network = Network(lambda inputs: inputs[0].size == 256)
    with pytest.raises(ExportError, match="may be one_hot channels_first of 16 planes, one_hot "):
        describe(network)
    assert describe(network, reads__layout="flat_planes").reads.by_plane


def test_the_export_does_not_ask_for_fields_with_a_default() -> None:
    network = Network(lambda inputs: inputs.shape[1:] == (16, 4, 4))
    description = describe(
        network, reads__empty_plane=False, answers__actions=("left", "up", "right", "down")
    )
    assert (description.reads.cells, description.reads.empty_plane) == ("rows", False)


def test_the_user_must_name_the_kind_of_numbers_and_the_meaning_of_four_outputs() -> None:
    network = Network(lambda inputs: inputs.shape[1:] == (16,))
    with pytest.raises(ExportError, match="give --input; the input may be exponents flat, tiles flat, log2_"):
        describe(network)
    with pytest.raises(ExportError, match=r"may be policy_logits or, .* action_values, .* with --answer"):
        complete_without_games(hints_from_flags({"reads.kind": "log2"}), network)


def test_a_single_output_is_an_afterstate_value_and_needs_a_scale() -> None:
    network = Network(lambda inputs: inputs.shape[1:] == (16, 4, 4), widths=(1,))
    with pytest.raises(NeedsFlags, match="afterstate_value needs --scale") as raised:
        complete_without_games(Hints(), network)
    assert raised.value.flags == "--scale SCALE"
    description = complete_without_games(hints_from_flags({"answers.scale": 500.0}), network)
    assert (description.answers.kind, description.answers.scale) == ("afterstate_value", 500)


def test_the_export_asks_for_the_meaning_of_an_output_by_its_name() -> None:
    network = Network(lambda inputs: inputs.shape[1:] == (16, 4, 4), widths=(4, 4))
    with pytest.raises(NeedsFlags, match="name one with --output and its kind with --answer") as raised:
        complete_without_games(Hints(), network)
    assert raised.value.flags == "--output OUTPUT --answer ANSWER"


@pytest.mark.parametrize("shape", [(20,), (2, 4, 4)], ids=["four more inputs", "one more plane"])
def test_the_export_asks_about_a_network_that_reads_more_than_the_board(shape: tuple[int, ...]) -> None:
    board = (1, *shape[1:]) if shape[1:] else (16,)
    network = Network(lambda inputs: inputs.shape[1:] in (shape, board) and inputs.dtype == np.float32)
    more = r"more numbers than a board has; give --input .*--encoder; .*choose one with --answer"
    with pytest.raises(NeedsFlags, match=more) as raised:
        complete_without_games(Hints(), network)
    assert raised.value.flags == "--input INPUT --answer ANSWER"
    assert describe(network, reads__kind="tiles").reads.kind == "tiles"


def test_the_export_asks_about_an_unusual_number_of_planes() -> None:
    """The last plane may hold the legal moves."""
    network = Network(lambda inputs: inputs.shape[1:] == (17, 4, 4))
    with pytest.raises(NeedsFlags, match=r"takes 17 planes, .*; give --planes .*--encoder;") as raised:
        complete_without_games(Hints(), network)
    assert raised.value.flags == "--planes PLANES --answer ANSWER"
    assert describe(network, reads__planes=17).largest_exponent == 16


def test_the_error_for_a_network_that_accepts_no_input_lists_the_attempts() -> None:
    with pytest.raises(ExportError, match="accepts no input that fits a board; describe its input"):
        describe(Network(lambda _: False))
    with pytest.raises(ExportError, match=r"accepts no input that fits .*planes 16.*: mat1 and mat2"):
        describe(
            Network(lambda _: False),
            reads__kind="one_hot",
            reads__layout="tokens",
            reads__planes=16,
            reads__type="float32",
        )


def test_a_network_that_accepts_only_one_board_is_refused() -> None:
    network = Network(lambda inputs: inputs.shape == (1, 16) and inputs.dtype == np.int64)
    with pytest.raises(ExportError, match=r"single board \(exponents flat\), but no batch"):
        describe(network)


def test_a_largest_exponent_that_the_network_does_not_accept_is_refused() -> None:
    """The network would fail in the middle of a game, when the tile appears."""
    network = Network(lambda inputs: inputs.shape[1:] == (16,) and inputs.max() < 12)
    with pytest.raises(ExportError, match="refuses the exponent 15"):
        describe(network, reads__kind="exponents", largest_exponent=15)


def test_flags_take_precedence_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text('[reads]\nkind = "tiles"\ncells = "columns"\n')
    hints = merged(hints_from_flags({"reads.kind": "log2"}), read_hints(tmp_path / "net.toml"))
    assert (hints.reads.kind, hints.reads.cells) == ("log2", "columns")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[reads", "not valid TOML"),
        ("[read]\n", "has no 'read'; did you mean reads?"),
        ('[reads]\nkind = "onehot"', "reads.kind is 'onehot', which is none of one_hot, "),
        ('[answers]\nactions = ["up", "down"]', "answers.actions has the length 2, not 4"),
    ],
)
def test_an_invalid_description_file_gives_a_one_line_error(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(text)
    with pytest.raises(ExportError) as raised:
        read_hints(tmp_path / "net.toml")
    assert str(raised.value).startswith(str(tmp_path / "net.toml"))
    assert message in str(raised.value)
