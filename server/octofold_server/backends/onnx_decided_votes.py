"""A graph that answers the move alone, with less arithmetic than the published graph that it is made of.

Nodes that only other outputs need are left out. If eight views vote, five equal votes decide, whatever the
other three views say. So the graph runs five views of every board, and the other three of the boards that are
still undecided:

    boards --5 views--> scores --all votes equal?--> move
                          `--undecided--3 views--> scores --decision--> move

The decision about undecided boards is the published graph's own, over all eight views, ties included. Boards
with one legal move are not singled out: they are 1 in 8,000.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray
from octofold_game.contract.graph import BOARDS, LEGAL, MOVE
from octofold_proto.onnx import graph_pb2 as onnx

from octofold_server.backends.onnx_pruning import ancestors, keep_outputs, prune
from octofold_server.backends.onnx_tables import TABLES

VIEWS = 8
ENOUGH = 5
"""Equal votes that decide."""

_SCORES = "move_scores"
"""In a graph of octofold-export, the scores [N, V, 4] of the board's own moves on each view."""
_FAVORITE = "favourite"
"""There, the favorite moves of the views. A move that is no vote does not depend on them."""

_NO_NAMES: Mapping[str, str] = MappingProxyType({})
_INT8, _INT32, _INT64, _BOOL = 3, 6, 7, 9  # types of elements in an ONNX file
_AN_INTEGER = 2  # the type of an attribute there


def move_graph(model: bytes) -> bytes | None:
    """Make the graph that answers `move` alone, as the published graph does.

    Args:
        model: the published graph.

    Returns:
        None if it would save little: octofold-export did not make the graph, or no eight views vote, unless
        its tables are an input.
    """
    if _FAVORITE.encode() not in model:
        return None
    parsed = onnx.Model.FromString(model)
    graph = parsed.graph
    if any(each.HasField("g") or each.graphs for node in graph.node for each in node.attribute):
        return None  # graphs inside nodes read tensors that the nodes do not name
    keep_outputs(graph, {MOVE.name})
    parts = _Parts.of(graph)
    if parts is not None:
        _Stages(graph, parts).make()
        prune(graph)
    elif TABLES not in [each.name for each in graph.input]:
        return None
    return parsed.SerializeToString()


def _descendants(nodes: Sequence[onnx.Node], tensors: Iterable[str]) -> set[str]:
    """The tensors and all that depends on them."""
    found = set(tensors)
    for node in nodes:
        if found.intersection(node.input):
            found.update(node.output)
    return found


class _Parts:
    """The nodes of a graph in which eight views vote."""

    def __init__(self) -> None:
        self.boards: list[onnx.Node] = []
        "what is computed once: for the graph, or for each board, such as its legal moves"
        self.views: list[onnx.Node] = []
        "from the first nodes that tell views apart to the scores of moves; the last two arrange the scores"
        self.decision: list[onnx.Node] = []
        "from the scores to the move"
        self.pickers: list[onnx.Node] = []
        "of `views`: the nodes whose index has a row for each view"

    @classmethod
    def of(cls, graph: onnx.Graph) -> _Parts | None:
        """Sort the nodes of a graph; None if it has another form."""
        nodes, parts = graph.node, cls()
        constants = {each.name: each for each in graph.initializer}
        by_board = _descendants(nodes, [BOARDS.name])
        if not {_SCORES, _FAVORITE, LEGAL.name} <= by_board:
            return None
        to_scores = ancestors(nodes, [_SCORES])
        to_legal = ancestors(nodes, [LEGAL.name])
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
        return parts if parts._arrange_scores(constants) else None

    def _arrange_scores(self, constants: Mapping[str, onnx.Tensor]) -> bool:
        """Whether the last two nodes of `views` put the answers of a board in a row, and pick its moves."""
        if not self.pickers or len(self.views) < 3:
            return False
        row, turn = self.views[-2:]
        shape = constants.get(row.input[1]) if row.op_type == "Reshape" else None
        return (
            shape is not None
            and len(_integers(shape)) == 2
            and _integers(shape)[0] == -1
            and _integers(shape)[1] % VIEWS == 0
            and turn.output[0] == _SCORES
            and turn.input[0] == row.output[0]
            and _picks_views(turn, constants)
        )


def _picks_views(node: onnx.Node, constants: Mapping[str, onnx.Tensor]) -> bool:
    """Whether a node gathers along axis 1 with an index that has a row for each view."""
    if node.op_type != "Gather" or [each.i for each in node.attribute if each.name == "axis"] != [1]:
        return False
    index = constants.get(node.input[1])
    return index is not None and index.data_type == _INT64 and len(index.dims) > 1 and index.dims[0] == VIEWS


def _integers(tensor: onnx.Tensor) -> NDArray[np.int64]:
    return np.frombuffer(tensor.raw_data, "<i8").reshape(tensor.dims)


class _Stages:
    """Writes the nodes of a vote in two stages.

    Copies of nodes read and make tensors of some rows only. `renamed` maps a tensor of the published graph to
    the one that takes its place.
    """

    def __init__(self, graph: onnx.Graph, parts: _Parts) -> None:
        self._graph = graph
        self._parts = parts
        self._constants = {each.name: each for each in graph.initializer}
        self._number = 0

    def make(self) -> None:
        """Replace the nodes of the graph."""
        parts = self._parts
        del self._graph.node[:]
        self._graph.node.extend(parts.boards)
        first = self._scores({}, 0, ENOUGH)
        ballot = ancestors(parts.decision, [_FAVORITE])
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
        decided = self._add("Cast", [decided], to=_INT64)
        votes = self._add("ScatterElements", [most, undecided, decided], axis=0)
        legal = self._add("Cast", [LEGAL.name], to=_INT32)
        running = self._add("ReduceMax", [legal, self._constant([1])], keepdims=0)
        running = self._add("Cast", [running], to=_BOOL)
        played = self._add("Where", [running, votes, self._constant(-1)])
        self._graph.node.append(_node("Cast", [played], MOVE.name, to=_INT8))

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
        self, nodes: Iterable[onnx.Node], renamed: Mapping[str, str], seconds: Mapping[str, str] = _NO_NAMES
    ) -> dict[str, str]:
        """Add copies of nodes that read renamed tensors; return these and the new names of their outputs.

        `seconds` has other second inputs, which nodes may share, by the output of the node.
        """
        names = dict(renamed)
        self._number += 1
        for node in nodes:
            copy = onnx.Node.FromString(node.SerializeToString())
            copy.input[:] = [names.get(name, name) for name in node.input]
            if node.output[0] in seconds:
                copy.input[1] = seconds[node.output[0]]
            copy.output[:] = [f"{name}_{self._number}" for name in node.output]
            copy.name = copy.output[0]
            names.update(zip(node.output, copy.output, strict=True))
            self._graph.node.append(copy)
        return names

    def _add(self, kind: str, inputs: Sequence[str], **attributes: int) -> str:
        self._number += 1
        name = f"stage_{self._number}"
        self._graph.node.append(_node(kind, inputs, name, **attributes))
        return name

    def _constant(self, numbers: ArrayLike) -> str:
        self._number += 1
        name, array = f"stage_{self._number}", np.asarray(numbers, "<i8")
        constant = onnx.Tensor(name=name, dims=array.shape, data_type=_INT64, raw_data=array.tobytes())
        self._graph.initializer.append(constant)
        return name


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: int) -> onnx.Node:
    """A node whose attributes are integers."""
    named = [onnx.Attribute(name=name, i=number, type=_AN_INTEGER) for name, number in attributes.items()]
    return onnx.Node(name=output, op_type=kind, input=inputs, output=[output], attribute=named)
