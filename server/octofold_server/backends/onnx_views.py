"""The probabilities of each view of a board, for people who want to see how a model decides.

A graph of the contract may have the output `views`. Most graphs have only a tensor that it can be made of.
They get an output appended: two serialized protobuf messages, one after the other, are their union, so a few
bytes behind the file add nodes and an output to its graph. The page does the same in a browser
(`web/static/js/ask/onnx_views.js`).
"""

from __future__ import annotations

import re
import struct

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.graph import BOARDS, LEGAL, VIEWS
from octofold_game.errors import first_line

from octofold_server.backends.backend import BackendError, Layout, Tensors
from octofold_server.backends.onnx_session import APPENDED_VIEWS, new_session
from octofold_server.backends.onnx_tables import without_tables

PROBABILITIES = "view_probabilities"
"""The tensor [N, V, 4] of a policy network, in graphs of octofold-export."""

SCORES = "legal_scores"
"""The tensor [N, V, 4] of any network there: logits or points, hugely negative for illegal moves."""

_OUTPUT = re.compile(rb"\x0a\x05" + VIEWS.name.encode() + rb"\x12.\x0a", re.DOTALL)
"""The start of a `ValueInfoProto` of that name. To look in a session would take seconds for a large model."""


class NoViews(BackendError):
    """The graph computes no tensor that each view's probabilities could be made of."""


class ViewsSession:
    """A session that computes each view's probabilities of a board's own moves.

    Args:
        model: the graph.
        layout: the device and the threads.
        tensors: the tensors that the graph refers to, by name.
        temperature: of the softmax over points, for a network that values moves.

    Raises:
        NoViews: the graph has no tensor for them.
        GraphError: onnxruntime cannot run the graph.
    """

    def __init__(self, model: bytes, layout: Layout, tensors: Tensors, temperature: float) -> None:
        self._views = VIEWS.name
        model, self._tables = without_tables(model, None)  # the lanes have them already
        if _OUTPUT.search(model) is None:
            self._views = APPENDED_VIEWS
            model += appended_views(model, temperature)
        self._session = new_session(model, layout, tensors)

    def run(self, boards: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The probabilities [N, V, 4] for boards [N, 16]; 0 for illegal moves.

        Raises:
            BackendError: the graph failed.
        """
        try:
            views, legal = self._session.run([self._views, LEGAL.name], {BOARDS.name: boards, **self._tables})
        except Exception as error:  # onnxruntime's exceptions have no other base class
            raise BackendError(f"the views of a board failed: {first_line(error)}") from error
        return np.where(legal[:, None], views, np.float32(0))


def appended_views(model: bytes, temperature: float) -> bytes:
    """The bytes that give a graph the output `APPENDED_VIEWS` when they follow it.

    Raises:
        NoViews: the graph has no tensor for it.
    """
    name = APPENDED_VIEWS
    if PROBABILITIES.encode() in model:
        nodes = _node("Identity", [PROBABILITIES], name)
    elif SCORES.encode() in model:
        nodes = (
            _node("Constant", [], "views_factor", _float_attribute("value_float", 1 / temperature))
            + _node("Mul", [SCORES, "views_factor"], "views_tempered")
            + _node("Softmax", ["views_tempered"], name)
        )
    else:
        raise NoViews("the graph has no tensor with the answers of its views")
    return _field(7, nodes + _field(12, _field(1, name.encode()) + _field(2, _TYPE)))  # graph; output


def _node(operator: str, inputs: list[str], output: str, attribute: bytes = b"") -> bytes:
    """A `NodeProto` of a graph."""
    return _field(
        1,
        b"".join(_field(1, each.encode()) for each in inputs)
        + _field(2, output.encode())
        + _field(4, operator.encode())
        + attribute,
    )


def _float_attribute(name: str, value: float) -> bytes:
    """An `AttributeProto` of a node: its name, its number and its type, FLOAT."""
    return _field(5, _field(1, name.encode()) + b"\x15" + struct.pack("<f", value) + b"\xa0\x01\x01")


def _field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message, whose content is a text or a message."""
    length, size = len(content), b""
    while length > 127:
        size += bytes([length & 127 | 128])
        length >>= 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + content


# A `TypeProto`: a tensor of type FLOAT.
_TYPE = _field(1, b"\x08\x01")
