"""The graph's encoding of boards, for every supported input of a network."""

from itertools import product

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from octofold_export.description.description import (
    NUMBER_LAYOUTS,
    ONE_HOT_LAYOUTS,
    ElementType,
    InputKind,
    Layout,
    Reads,
)
from octofold_export.description.description import encode as encode_plainly
from octofold_export.graph.builder import GraphBuilder
from octofold_export.graph.encoded_body import encode_cells

ONE_HOT_TYPES: tuple[ElementType, ...] = ("float32", "uint8", "bool")
ONE_HOT = [
    Reads(kind="one_hot", layout=layout, planes=planes, empty_plane=empty, type=element)
    for layout, planes, empty, element in product(ONE_HOT_LAYOUTS, (12, 16, 20), (True, False), ONE_HOT_TYPES)
]
NUMBER_KINDS: tuple[InputKind, ...] = ("exponents", "tiles", "log2")
NUMBER_TYPES: tuple[ElementType, ...] = ("float32", "float16", "int64", "int32")
NUMBERS = [
    Reads(kind=kind, layout=layout, type=element, divide_by=divisor)
    for kind, layout, element, divisor in product(NUMBER_KINDS, NUMBER_LAYOUTS, NUMBER_TYPES, (1.0, 11.0))
    if element.startswith("float") or (kind != "log2" and divisor == 1)
]
EXAMPLE = np.array([[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 0, 3, 0]], np.uint8)


def by_graph(reads: Reads, boards: NDArray[np.uint8], largest: int) -> NDArray[np.generic]:
    graph = GraphBuilder()
    cells = graph.add("Cast", ["boards"], "cells", to=onnx.TensorProto.INT32)
    encoded = encode_cells(graph, cells, reads, largest)
    model = graph.model(
        [onnx.helper.make_tensor_value_info("boards", onnx.TensorProto.UINT8, ["N", 16])],
        [
            onnx.helper.make_tensor_value_info(
                encoded, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(reads.type)), ["N", *reads.shape]
            )
        ],
        "encoding",
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"boards": boards})
    return np.asarray(found)


@pytest.mark.parametrize("reads", [*ONE_HOT, *NUMBERS], ids=lambda reads: f"{reads.kind}-{reads.layout}")
def test_the_graph_encodes_boards_by_the_definition(reads: Reads) -> None:
    boards = np.random.default_rng(1).integers(0, 12, (5, 16)).astype(np.uint8)
    expected = encode_plainly(reads, boards)
    found = by_graph(reads, boards, 11)
    assert found.dtype == expected.dtype
    assert (found == expected).all()


@pytest.mark.parametrize(
    ("reads", "first_cells"),
    [
        (Reads(kind="exponents", layout="flat"), [0, 1, 2, 3, 4]),
        (Reads(kind="exponents", layout="flat", cells="columns"), [0, 4, 8, 0, 1]),
        (Reads(kind="tiles", layout="flat", type="int64"), [0, 2, 4, 8, 16]),
        (Reads(kind="tiles", layout="flat", divide_by=2), [0, 1, 2, 4, 8]),
        (Reads(kind="log2", layout="flat", divide_by=4), [0, 0.25, 0.5, 0.75, 1]),
    ],
    ids=str,
)
def test_numbers_have_the_encoding_of_their_names(reads: Reads, first_cells: list[float]) -> None:
    assert encode_plainly(reads, EXAMPLE)[0, :5].tolist() == first_cells


def test_one_hot_cells_have_the_order_of_their_layout() -> None:
    def place(layout: Layout, *, empty_plane: bool = True) -> list[list[int]]:
        reads = Reads(kind="one_hot", layout=layout, planes=12, empty_plane=empty_plane)
        board = np.zeros((1, 16), np.uint8)
        board[0, 6] = 9  # row 1, column 2
        without_empty = encode_plainly(reads, board)[0] - encode_plainly(reads, board * 0)[0]
        return [[int(at) for at in index] for index in np.argwhere(without_empty == 1)]

    assert place("channels_first") == [[9, 1, 2]]
    assert place("channels_last") == [[1, 2, 9]]
    assert place("tokens") == [[6, 9]]
    assert place("flat") == [[6 * 12 + 9]]
    assert place("flat_planes") == [[9 * 16 + 6]]
    assert place("tokens", empty_plane=False) == [[6, 8]]
