"""Pads the channels of a body's convolutions with zeros to a number that processors multiply at full speed.

onnxruntime's fast convolutions need a multiple of four channels, the matrix units of a GPU one of eight. 222
channels take 1.4 times as long as 224. The answers stay the same: the next convolution multiplies a padded
channel by zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from octofold_export.sources.body import reads

_MULTIPLE = 8
_FEWEST = 16
"""Convolutions with fewer channels stay: several times as many channels would cost more than they save."""
_PREFIX = "padded_channels/"
_BY_CHANNEL = frozenset(
    (
        *("Abs", "AveragePool", "Celu", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish"),
        *("Identity", "LeakyRelu", "MaxPool", "Mish", "Neg", "Relu", "Selu", "Sigmoid", "Softplus"),
        *("Softsign", "Sqrt", "Tanh"),
    )
)
"""Operators on one tensor that work on every channel by itself, and give a finite number for zeros."""
_BY_CHANNEL_OF_TWO = frozenset(("Add", "Mul", "Sub"))


def widen_channels(body: onnx.ModelProto) -> onnx.ModelProto:
    """Pad the channels between the convolutions of `body`, a model with a free batch size."""
    rewriting = _Rewriting(body.graph)
    for node in body.graph.node:
        rewriting.add(node)
    for output in body.graph.output:
        rewriting.narrow(output.name)
    result = onnx.ModelProto.FromString(body.SerializeToString())
    graph = result.graph
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(rewriting.nodes)
    used = {name for node in graph.node for name in reads(node)} | {output.name for output in graph.output}
    graph.initializer.extend(tensor for name, tensor in rewriting.constants.items() if name in used)
    return result


@dataclass(frozen=True)
class _Wide:
    """A tensor with padded channels, which stands for one with fewer."""

    name: str
    channels: int
    "those that are not padded"


class _Rewriting:
    """Copies nodes one after another, with padded channels between them where possible."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self._wide: dict[str, _Wide] = {}
        self._narrowed: set[str] = set()

    def add(self, node: onnx.NodeProto) -> None:
        """Append a copy of `node`."""
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        channels = [self._wide[name].channels for name in node.input if name in self._wide]
        if self._is_plain_convolution(node):
            self._add_convolution(copy)
        elif channels and self._works_by_channel(node, channels):
            copy.input[:] = [self._wide[name].name if name in self._wide else name for name in node.input]
            self._widen_output(copy, channels[0])
        else:
            for name in reads(node):
                self.narrow(name)
            self.nodes.append(copy)

    def narrow(self, name: str) -> None:
        """Make sure that the tensor `name` exists with its own number of channels."""
        if name not in self._wide or name in self._narrowed:
            return
        self._narrowed.add(name)
        wide = self._wide[name]
        bounds = [self._vector(number) for number in (0, wide.channels, 1)]
        self.nodes.append(
            helper.make_node("Slice", [wide.name, *bounds], [name], name=f"{_PREFIX}{name}_narrowed")
        )

    def _add_convolution(self, node: onnx.NodeProto) -> None:
        weights = numpy_helper.to_array(self.constants[node.input[1]])  # [outputs, inputs, ...]
        outputs = len(weights)
        added = -outputs % _MULTIPLE if outputs >= _FEWEST else 0
        wide = self._wide.get(node.input[0])
        widths = [(0, added), (0, -weights.shape[1] % _MULTIPLE if wide else 0)] + [(0, 0)] * (
            weights.ndim - 2
        )
        if wide is not None:
            node.input[0] = wide.name
        if not added and wide is None:
            self.nodes.append(node)
            return
        padded = _PREFIX + node.output[0]
        node.input[1] = self._constant(f"{padded}_weights", np.pad(weights, widths))
        if len(node.input) > 2 and node.input[2]:
            bias = numpy_helper.to_array(self.constants[node.input[2]])
            node.input[2] = self._constant(f"{padded}_bias", np.pad(bias, (0, added)))
        if added:
            self._widen_output(node, outputs)
        else:
            self.nodes.append(node)

    def _widen_output(self, node: onnx.NodeProto, channels: int) -> None:
        name = node.output[0]
        self._wide[name] = _Wide(_PREFIX + name, channels)
        node.output[0] = _PREFIX + name
        self.nodes.append(node)

    def _is_plain_convolution(self, node: onnx.NodeProto) -> bool:
        groups = [attribute.i for attribute in node.attribute if attribute.name == "group"]
        known = all(name in self.constants for name in node.input[1:] if name)
        return node.op_type == "Conv" and not node.domain and groups in ([], [1]) and known

    def _works_by_channel(self, node: onnx.NodeProto, channels: list[int]) -> bool:
        if node.domain or len(node.output) > 1:
            return False
        if node.op_type in _BY_CHANNEL_OF_TWO:
            others = [name for name in node.input if name not in self._wide]
            return len(set(channels)) == 1 and all(map(self._is_number, others))
        if node.op_type == "Pad":
            return self._pads_no_channels(node)
        return node.op_type in _BY_CHANNEL

    def _is_number(self, name: str) -> bool:
        return name in self.constants and all(size == 1 for size in self.constants[name].dims)

    def _pads_no_channels(self, node: onnx.NodeProto) -> bool:
        if node.input[1] not in self.constants or len(node.input) > 3:  # the fourth names other axes
            return False
        widths = numpy_helper.to_array(self.constants[node.input[1]]).reshape(2, -1)
        return not widths[:, :2].any()

    def _vector(self, number: int) -> str:
        return self._constant(f"{_PREFIX}{number}", np.array([number], np.int64))

    def _constant(self, name: str, values: np.ndarray) -> str:
        self.constants[name] = numpy_helper.from_array(values, name)
        return name
