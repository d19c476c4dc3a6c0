"""Parses a graph, and removes the parts that its outputs do not need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from google.protobuf.message import DecodeError
from octofold_proto.onnx import graph_pb2 as onnx

from octofold_server.backends.backend import BackendError


class GraphError(BackendError):
    """onnxruntime cannot run the graph, or the graph breaks the contract."""


def parsed(model: bytes) -> onnx.Model:
    """Parse a graph. Raises `GraphError` if it is not valid ONNX."""
    try:
        return onnx.Model.FromString(model)
    except DecodeError as error:
        raise GraphError(f"the graph, or its graph for moves alone, is not valid ONNX: {error}") from error


def keep_outputs(graph: onnx.Graph, names: Collection[str]) -> None:
    """Keep only the outputs in `names`, and the nodes and initializers that these outputs need."""
    kept = [output for output in graph.output if output.name in names]
    del graph.output[:]
    graph.output.extend(kept)
    prune(graph)


def prune(graph: onnx.Graph) -> None:
    """Remove the nodes and initializers that no output of the graph needs."""
    needed = ancestors(graph.node, [output.name for output in graph.output])
    nodes = [node for node in graph.node if needed.intersection(node.output)]
    initializers = [initializer for initializer in graph.initializer if initializer.name in needed]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(initializers)


def ancestors(nodes: Sequence[onnx.Node], tensors: Iterable[str]) -> set[str]:
    """Return the names of the given tensors, and of all tensors that they are computed from.

    Args:
        nodes: the nodes of the graph in order of execution.
        tensors: names of tensors.
    """
    needed = set(tensors)
    for node in reversed(nodes):
        if needed.intersection(node.output):
            needed.update(_reads(node))
    return needed


def _reads(node: onnx.Node) -> Iterator[str]:
    """Yield the names of the tensors that a node and the graphs inside it read."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from (output.name for output in graph.output)
            for inner in graph.node:
                yield from _reads(inner)
