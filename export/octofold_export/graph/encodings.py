"""The encoding of a folded graph: turns exponents of cells into the input of a described network."""

from __future__ import annotations

import numpy as np
from onnx import helper

from octofold_export.description.description import Reads
from octofold_export.description.encoding import numbers
from octofold_export.graph.builder import GraphBuilder

EXPONENT_CODES = 256
"""All of uint8: an unexpected exponent must not crash the runtime."""


def encode(graph: GraphBuilder, cells: str, reads: Reads, largest_exponent: int) -> str:
    """Encode `[M, 16] int32` exponents, in the network's order of cells, as its input.

    Exponents above `largest_exponent` count as this one. A table of 256 codes encodes every kind with one
    Gather.
    """
    exponents = np.minimum(np.arange(EXPONENT_CODES), largest_exponent)
    if reads.planes is None:
        codes = numbers(reads, exponents)
    else:
        if reads.largest_plane is not None and reads.above == "clamped":
            exponents = np.minimum(exponents, reads.largest_plane)
        first = 0 if reads.empty_plane else 1
        codes = (exponents[:, None] == np.arange(first, first + reads.planes)).astype(np.float64)
    table = graph.constant("codes", codes.astype(helper.tensor_dtype_to_np_dtype(element_type(reads))))
    encoded = graph.add("Gather", [table, cells], "encoded", axis=0)  # [M, 16] or [M, 16, P]
    if reads.by_plane:
        encoded = graph.add("Transpose", [encoded], "encoded_planes", perm=[0, 2, 1])
    if reads.layout in ("tokens", "flat") and len(reads.shape) == codes.ndim:
        return encoded
    return graph.add("Reshape", [encoded, graph.integers(-1, *reads.shape)], "network_input")


def element_type(reads: Reads) -> int:
    """The ONNX type of the input."""
    return helper.np_dtype_to_tensor_dtype(np.dtype(reads.type))
