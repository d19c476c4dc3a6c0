"""Reads a network from an ONNX file and the files of its external tensors."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from octofold_game.errors import first_line
from octofold_game.system.files import open_regular, read_regular
from onnx import TensorProto, helper, numpy_helper

from octofold_export.description.description import ElementType
from octofold_export.description.network import NetworkError
from octofold_export.errors import ExportError
from octofold_export.graph.sessions import new_session
from octofold_export.sources.file_kinds import MOST_BYTES, advice, check_size, kind_of
from octofold_export.sources.onnx_body import make_body

_BLOCK = 1 << 20


class OnnxNetwork:
    """A `described_network.TrainedNetwork` that runs an unchanged ONNX model with onnxruntime."""

    def __init__(self, model: onnx.ModelProto, name: str) -> None:
        """Raise `ExportError` if the model cannot be exported; the message begins with `name`."""
        self.model = model
        for tensor in _tensors(model.graph):  # infinite values may be a mask, so only NaN is refused
            if _is_float(tensor) and np.isnan(numpy_helper.to_array(tensor)).any():
                raise ExportError(f"{name}: the constant {tensor.name!r} contains NaN")
        try:
            self._session = new_session(model)
        except Exception as error:  # onnxruntime's exceptions have no other common base class
            raise ExportError(f"{name}: onnxruntime cannot load the model: {first_line(error)}") from error
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            listed = ", ".join(repr(value.name) for value in inputs)
            raise ExportError(f"{name}: the model must have one input, got {len(inputs)} ({listed})")
        self._input = inputs[0].name
        self._names = [value.name for value in self._session.get_outputs()]
        declared = next(value for value in model.graph.input if value.name == self._input).type.tensor_type
        try:
            element = helper.tensor_dtype_to_np_dtype(declared.elem_type).name
        except KeyError:
            raise ExportError(f"{name}: the input {self._input!r} is not a tensor of numbers") from None
        if element not in (allowed := get_args(ElementType)):
            wanted = f"one of {', '.join(allowed)}, got {element}"
            raise ExportError(f"{name}: the type of the input {self._input!r} must be {wanted}")
        self.type: ElementType | None = cast(ElementType, element)
        sizes = [dim.dim_value or None for dim in declared.shape.dim]
        self.shape: Sequence[int | None] | None = sizes or None
        self._batch = sizes[0] if sizes else None

    def run(self, inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Run the model, as `Network.run` does.

        A model with a fixed batch size runs on several batches; the last one is filled up with boards.
        """
        size = self._batch or len(inputs)
        filled = inputs
        if self._batch is not None:
            filled = inputs[np.arange(-(-len(inputs) // size) * size) % len(inputs)]
        try:
            runs = [self.run_batch(filled[first : first + size]) for first in range(0, len(filled), size)]
        except Exception as error:  # onnxruntime's exceptions have no other common base class
            raise NetworkError(first_line(error)) from error
        joined = (np.concatenate(output)[: len(inputs)] for output in zip(*runs, strict=True))
        return dict(zip(self._names, joined, strict=True))

    def operations(self, _inputs: NDArray[Any]) -> int:
        """Return the number of nodes of the graph, which is the same for all inputs."""
        return len(self.model.graph.node)

    def run_batch(self, inputs: NDArray[Any]) -> Sequence[NDArray[Any]]:
        """Return the outputs in order, for a batch of the size that the model needs."""
        outputs: Sequence[NDArray[Any]] = self._session.run(None, {self._input: inputs})
        return outputs

    def body(self, outputs: Sequence[str], example: NDArray[Any]) -> onnx.ModelProto:
        """Make the body of the network, as `described_network.TrainedNetwork.body` does."""
        return make_body(self.model, outputs, example)

    @property
    def weights(self) -> int:
        """Number of floating-point numbers in the model's constants."""
        return sum(int(np.prod(tensor.dims)) for tensor in _tensors(self.model.graph) if _is_float(tensor))

    @property
    def operators(self) -> str:
        """The operators of the graph with their counts, most frequent first."""
        counted = Counter(node.op_type for node in self.model.graph.node)
        return ", ".join(f"{name} {count}" for name, count in counted.most_common())


def read_onnx(file: Path) -> tuple[OnnxNetwork, str]:
    """Load the network in `file`; return it with the SHA-256 of the file and its external files.

    Raises:
        ExportError: the file cannot be read or exported, is too large, or refers to files outside its folder.
    """
    if file.is_dir():
        raise ExportError(f"{file} is a folder; docs/export.md has the command that converts a SavedModel")
    check_size(file)
    digest = hashlib.sha256()
    try:
        model, size = _parsed(file, digest)
        beside = _external_files(file, model)
        check_size(file, size + sum(beside.values()))
        for path in beside:
            with open_regular(path, MOST_BYTES) as opened:
                while block := opened.read(_BLOCK):
                    digest.update(block)
        for tensor in filter(_is_external, _tensors(model.graph)):
            _load_external(file, tensor)
    except OSError as error:
        raise ExportError(f"{error.filename or file}: {error.strerror}") from error
    if not model.graph.node:
        raise ExportError(f"{file}: not an ONNX file, or its graph is empty")
    return OnnxNetwork(model, str(file)), digest.hexdigest()


def _parsed(file: Path, digest: hashlib._Hash) -> tuple[onnx.ModelProto, int]:
    """Return the model in a file, and the size of the file; the bytes of the file are not kept."""
    content = read_regular(file, MOST_BYTES)
    digest.update(content)
    try:
        return onnx.ModelProto.FromString(content), len(content)
    except DecodeError as error:
        known = "" if kind_of(content) == "ONNX" else advice(content)
        raise ExportError(f"{file}: not an ONNX file{known or ', or a damaged one'}") from error


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield the constants of a graph and of graphs inside its nodes: initializers and tensor attributes."""
    yield from graph.initializer
    for node in graph.node:
        yield from _constants(node)


def _constants(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        for inner in (attribute.g, *attribute.graphs):
            yield from _tensors(inner)


def _external_files(file: Path, model: onnx.ModelProto) -> dict[Path, int]:
    """Return the external files of `model`, with the number of bytes that tensors take from each file."""
    sizes: dict[Path, int] = {}
    for tensor in filter(_is_external, _tensors(model.graph)):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        # Paths in the model must stay in its folder. Symbolic links, which model hubs use, are followed.
        if not location or Path(location).is_absolute() or ".." in Path(location).parts:
            raise ExportError(
                f"{file}: the file of tensor {tensor.name!r} must be in the model's folder, got {location!r}"
            )
        path = file.parent / location
        length = entries.get("length", "")
        sizes[path] = sizes.get(path, 0) + (int(length) if length.isdecimal() else path.stat().st_size)
    return sizes


def _load_external(file: Path, tensor: TensorProto) -> None:
    """Read an external tensor into the model; `_external_files` has checked the path of its file."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    offset, length = (entries.get(key, "") for key in ("offset", "length"))
    wanted = int(np.prod(tensor.dims)) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    with open_regular(file.parent / entries["location"], MOST_BYTES) as opened:
        start = int(offset) if offset.isdecimal() else 0
        rest = max(opened.seek(0, os.SEEK_END) - start, 0)
        found = min(int(length), rest) if length.isdecimal() else rest
        if found != wanted:
            raise ExportError(
                f"{file}: the tensor {tensor.name!r} must have {wanted} bytes, got {found} in "
                f"{entries['location']!r}"
            )
        opened.seek(start)
        tensor.raw_data = opened.read(wanted)
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]


def _is_external(tensor: TensorProto) -> bool:
    return bool(tensor.data_location == TensorProto.EXTERNAL)


def _is_float(tensor: onnx.TensorProto) -> bool:
    return tensor.data_type in (
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
    )
