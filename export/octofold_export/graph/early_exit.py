"""The graph for moves alone: it answers `move` as the whole graph does, with less arithmetic.

Nodes that only other outputs need are left out. If eight views vote, five equal votes decide, whatever the
other three views say. So the graph runs five views of every board, and the other three of the boards that are
still undecided:

    boards --5 views--> scores --all votes equal?--> move
                          `--undecided--3 views--> scores --decision--> move

The decision about undecided boards is the whole graph's own, over all eight views, ties included. Boards with
one legal move are not singled out: they are 1 in 8,000.

It is published without the weights, which are those of the whole graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray
from octofold_game.contract.graph import BOARDS, LEGAL, MOVE, UNPACKED_TABLES
from onnx import TensorProto, helper, numpy_helper

VIEWS = 8
ENOUGH = 5
"""Equal votes that decide."""

_SCORES = "move_scores"
"""The scores [N, V, 4] of the board's own moves on each view."""
_FAVORITE = "favourite"
"""The favorite moves of the views. A move that is no vote does not depend on them."""

_NO_NAMES: Mapping[str, str] = MappingProxyType({})


def moves_graph(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Make the graph that answers `move` alone, without the initializers of the whole graph.

    Returns None if it would save little: no eight views vote, and the graph unpacks no tables.
    """
    graph = model.graph
    if any(each.HasField("g") or each.graphs for node in graph.node for each in node.attribute):
        return None  # graphs inside nodes read tensors that the nodes do not name
    alone = onnx.ModelProto()
    alone.CopyFrom(_without_initializers(model))
    _keep_move(alone.graph)
    parts = _Parts.of(alone.graph, {each.name: each for each in graph.initializer})
    if parts is not None:
        _Stages(alone.graph, parts).make()
        _keep_move(alone.graph)
    elif not any(UNPACKED_TABLES in node.output for node in graph.node):
        return None
    return alone


def with_weights(alone: onnx.ModelProto, model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph for moves alone with the initializers of the whole graph, as a server runs it."""
    whole = onnx.ModelProto()
    whole.CopyFrom(alone)
    whole.graph.initializer.extend(model.graph.initializer)
    return whole


def _without_initializers(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy, which must not have the weights even for a moment."""
    copy = onnx.ModelProto(ir_version=model.ir_version, producer_name=model.producer_name)
    copy.opset_import.extend(model.opset_import)
    copy.graph.name = model.graph.name
    copy.graph.node.extend(model.graph.node)
    copy.graph.input.extend(model.graph.input)
    copy.graph.output.extend(model.graph.output)
    return copy


def _keep_move(graph: onnx.GraphProto) -> None:
    """Remove all outputs but the move, and the nodes that it does not need."""
    outputs = [each for each in graph.output if each.name == MOVE.name]
    needed = _ancestors(graph.node, [MOVE.name])
    nodes = [node for node in graph.node if needed.intersection(node.output)]
    del graph.output[:], graph.node[:]
    graph.output.extend(outputs)
    graph.node.extend(nodes)


def _ancestors(nodes: Sequence[onnx.NodeProto], tensors: Iterable[str]) -> set[str]:
    """The tensors and all that they are computed from. The nodes of a graph are in order."""
    found = set(tensors)
    for node in reversed(nodes):
        if found.intersection(node.output):
            found.update(node.input)
    return found


def _descendants(nodes: Sequence[onnx.NodeProto], tensors: Iterable[str]) -> set[str]:
    """The tensors and all that depends on them."""
    found = set(tensors)
    for node in nodes:
        if found.intersection(node.input):
            found.update(node.output)
    return found


class _Parts:
    """The nodes of a graph in which eight views vote."""

    def __init__(self, constants: Mapping[str, TensorProto]) -> None:
        self.constants = constants
        self.boards: list[onnx.NodeProto] = []
        "what is computed once: for the graph, or for each board, such as its legal moves"
        self.views: list[onnx.NodeProto] = []
        "from the first nodes that tell views apart to the scores of moves; the last two arrange the scores"
        self.decision: list[onnx.NodeProto] = []
        "from the scores to the move"
        self.pickers: list[onnx.NodeProto] = []
        "of `views`: the nodes whose index has a row for each view"

    @classmethod
    def of(cls, graph: onnx.GraphProto, constants: Mapping[str, TensorProto]) -> _Parts | None:
        """Sort the nodes of a graph with these initializers; None if it has another form."""
        nodes, parts = graph.node, cls(constants)
        by_board = _descendants(nodes, [BOARDS.name])
        if not {_SCORES, _FAVORITE, LEGAL.name} <= by_board:
            return None
        to_scores = _ancestors(nodes, [_SCORES])
        to_legal = _ancestors(nodes, [LEGAL.name])
        by_view: set[str] = set()
        for node in nodes:
            name = node.output[0]
            if name not in by_board or name in to_legal:
                parts.boards.append(node)
            elif name not in to_scores:
                parts.decision.append(node)
            elif by_view.intersection(node.input) or _picks_views(node, constants):
                if not by_view.intersection(node.input):
                    parts.pickers.append(node)
                parts.views.append(node)
                by_view.update(node.output)
            else:
                parts.boards.append(node)
        return parts if parts._arrange_scores() else None

    def _arrange_scores(self) -> bool:
        """Whether the last two nodes of `views` put the answers of a board in a row, and pick its moves."""
        if not self.pickers or len(self.views) < 3:
            return False
        row, turn = self.views[-2:]
        shape = self.constants.get(row.input[1]) if row.op_type == "Reshape" else None
        return (
            shape is not None
            and len(_integers(shape)) == 2
            and _integers(shape)[0] == -1
            and _integers(shape)[1] % VIEWS == 0
            and turn.output[0] == _SCORES
            and turn.input[0] == row.output[0]
            and _picks_views(turn, self.constants)
        )


def _picks_views(node: onnx.NodeProto, constants: Mapping[str, TensorProto]) -> bool:
    """Whether a node gathers along axis 1 with an index that has a row for each view."""
    if node.op_type != "Gather" or [each.i for each in node.attribute if each.name == "axis"] != [1]:
        return False
    index = constants.get(node.input[1])
    return (
        index is not None
        and index.data_type == TensorProto.INT64
        and len(index.dims) > 1
        and index.dims[0] == VIEWS
    )


def _integers(tensor: TensorProto) -> NDArray[np.int64]:
    return numpy_helper.to_array(tensor)


class _Stages:
    """Writes the nodes of a vote in two stages.

    Copies of nodes read and make tensors of some rows only. `renamed` maps a tensor of the published graph to
    the one that takes its place.
    """

    def __init__(self, graph: onnx.GraphProto, parts: _Parts) -> None:
        self._graph = graph
        self._parts = parts
        self._constants = parts.constants
        self._number = 0

    def make(self) -> None:
        """Replace the nodes of the graph."""
        parts = self._parts
        del self._graph.node[:]
        self._graph.node.extend(parts.boards)
        first = self._scores({}, 0, ENOUGH)
        ballot = _ancestors(parts.decision, [_FAVORITE])
        voting = [node for node in parts.decision if ballot.intersection(node.output)]
        favorites = self._copies(voting, {_SCORES: first})[_FAVORITE]
        favorites = self._add("Reshape", [favorites, self._constant([-1, ENOUGH])])
        most = self._add("ReduceMax", [favorites, self._constant([1])], keepdims=0)
        least = self._add("ReduceMin", [favorites, self._constant([1])], keepdims=0)
        undecided = self._add("NonZero", [self._add("Less", [least, most])])
        undecided = self._add("Reshape", [undecided, self._constant([-1])])

        of_undecided = self._rows(undecided)
        last = self._scores(of_undecided, ENOUGH, VIEWS)
        so_far = self._add("Gather", [first, undecided], axis=0)
        of_undecided[_SCORES] = self._add("Concat", [so_far, last], axis=1)
        decided = self._copies(parts.decision, of_undecided)[MOVE.name]
        decided = self._add("Cast", [decided], to=TensorProto.INT64)
        votes = self._add("ScatterElements", [most, undecided, decided], axis=0)
        legal = self._add("Cast", [LEGAL.name], to=TensorProto.INT32)
        running = self._add("ReduceMax", [legal, self._constant([1])], keepdims=0)
        running = self._add("Cast", [running], to=TensorProto.BOOL)
        played = self._add("Where", [running, votes, self._constant(-1)])
        self._graph.node.append(
            helper.make_node("Cast", [played], [MOVE.name], name=MOVE.name, to=TensorProto.INT8)
        )

    def _rows(self, indices: str) -> dict[str, str]:
        """The rows of these indices, of every tensor of boards that views and decision read."""
        parts = self._parts
        by_board = _descendants(parts.boards, [BOARDS.name])
        read = {name for node in (*parts.views, *parts.decision) for name in node.input}
        return {name: self._add("Gather", [name, indices], axis=0) for name in sorted(by_board & read)}

    def _scores(self, renamed: Mapping[str, str], start: int, stop: int) -> str:
        """The scores [N, V, 4] of the views `start` to `stop`."""
        parts = self._parts
        row, turn = parts.views[-2:]
        width = _integers(self._constants[row.input[1]])[1] // VIEWS  # numbers that a view answers
        indices = {
            node.output[0]: _integers(self._constants[node.input[1]])[start:stop]
            for node in (*parts.pickers, turn)
        }
        indices[_SCORES] = indices[_SCORES] - start * width
        indices[row.output[0]] = np.array([-1, (stop - start) * width])
        seconds = {output: self._constant(index) for output, index in indices.items()}
        return self._copies(parts.views, renamed, seconds)[_SCORES]

    def _copies(
        self,
        nodes: Iterable[onnx.NodeProto],
        renamed: Mapping[str, str],
        seconds: Mapping[str, str] = _NO_NAMES,
    ) -> dict[str, str]:
        """Add copies of nodes that read renamed tensors; return these and the new names of their outputs.

        `seconds` has other second inputs, which nodes may share, by the output of the node.
        """
        names = dict(renamed)
        self._number += 1
        for node in nodes:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.input[:] = [names.get(name, name) for name in node.input]
            if node.output[0] in seconds:
                copy.input[1] = seconds[node.output[0]]
            copy.output[:] = [f"{name}_{self._number}" for name in node.output]
            copy.name = copy.output[0]
            names.update(zip(node.output, copy.output, strict=True))
            self._graph.node.append(copy)
        return names

    def _add(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        self._number += 1
        name = f"stage_{self._number}"
        self._graph.node.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def _constant(self, numbers: ArrayLike) -> str:
        self._number += 1
        name = f"stage_{self._number}"
        self._graph.initializer.append(numpy_helper.from_array(np.asarray(numbers, np.int64), name))
        return name
