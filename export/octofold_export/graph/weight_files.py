"""Keeps the large tensors of a network in files, so that they are in memory once instead of in every copy.

A network of 500 MB is parsed, converted, folded, and run by several sessions. Here, its graphs are small:
they refer to files in a temporary folder, from which onnxruntime maps the tensors. What is published is one
file.
"""

from __future__ import annotations

import io
import math
import mmap
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import onnx
import onnxruntime
from onnx import TensorProto

LARGE_BYTES = 32 << 20
"""Networks with fewer bytes of weights stay in memory."""
LARGE_TENSOR_BYTES = 1 << 20
_BLOCK = 1 << 20

# Fields of onnx.proto, as protobuf writes them: the number, and 2 for bytes that follow their length.
_GRAPH, _INITIALIZER, _RAW_DATA = (number << 3 | 2 for number in (7, 5, 9))


class WeightFiles:
    """A temporary folder with tensors, which goes with this object."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="octofold-weights-"))
        self._removed = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def add(self, tensor: TensorProto, content: BinaryIO, size: int) -> TensorProto:
        """Write the next `size` bytes of `content` to a file; returns the tensor that refers to it."""
        name = f"weights_{secrets.token_hex(8)}"
        with (self.folder / name).open("wb") as file:
            while size and (block := content.read(min(size, _BLOCK))):
                size -= file.write(block)
            length = file.tell()
        referring = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        referring.data_location = TensorProto.EXTERNAL
        for key, value in (("location", name), ("offset", "0"), ("length", str(length))):
            referring.external_data.add(key=key, value=value)
        return referring

    def as_file(self, model: onnx.ModelProto) -> Path:
        """Write a model that refers to these files among them."""
        file = self.folder / f"graph_{secrets.token_hex(8)}.onnx"
        file.write_bytes(model.SerializeToString())
        return file

    def whole(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """A copy of a model that contains its tensors."""
        whole = onnx.ModelProto.FromString(model.SerializeToString())
        onnx.load_external_data_for_model(whole, str(self.folder))
        return whole

    def joined(self, model: onnx.ModelProto) -> memoryview:
        """The file of a model that contains its tensors, which is on disk and not in memory.

        It is the message that protobuf would write, without a second copy of the tensors.
        """
        light = onnx.ModelProto.FromString(model.SerializeToString())
        tensors = list(light.graph.initializer)
        del light.graph.initializer[:]
        light.graph.initializer.extend(tensor for tensor in tensors if not is_in_file(tensor))
        pieces = []
        for tensor in filter(is_in_file, tensors):
            content = self.folder / file_of(tensor)
            size = content.stat().st_size
            head = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
            inner = head.SerializeToString() + _field(_RAW_DATA, size)
            pieces.append((_field(_INITIALIZER, len(inner) + size) + inner, content, size))
        graph = light.graph.SerializeToString()
        light.ClearField("graph")
        length = len(graph) + sum(len(before) + size for before, _, size in pieces)
        with tempfile.TemporaryFile(dir=self.folder) as joined:
            joined.write(light.SerializeToString() + _field(_GRAPH, length) + graph)
            for before, content, _ in pieces:
                joined.write(before)
                with content.open("rb") as opened:
                    shutil.copyfileobj(opened, joined, _BLOCK)
            joined.flush()
            return memoryview(mmap.mmap(joined.fileno(), 0, access=mmap.ACCESS_READ))

    def divided(self, file: Path) -> onnx.ModelProto:
        """A model in `file`, whose tensors are in other files beside it, as one that refers to files here."""
        model = onnx.load(file, load_external_data=False)
        for tensor in filter(is_in_file, model.graph.initializer):
            places = {entry.key: entry.value for entry in tensor.external_data}
            with (file.parent / places["location"]).open("rb") as content:
                content.seek(int(places.get("offset", "0")))
                tensor.CopyFrom(self.add(tensor, content, int(places["length"])))
        return model


def in_files(
    model: onnx.ModelProto, files: WeightFiles | None = None
) -> tuple[onnx.ModelProto, WeightFiles | None]:
    """Move the large tensors of a `model` into `files`, or into new ones if they are not given.

    Returns the model itself and None if it needs none.
    """
    moved = [tensor for tensor in model.graph.initializer if _is_large(tensor)]
    if files is None:
        if sum(map(_size, moved)) < LARGE_BYTES:
            return model, None
        files = WeightFiles()
    initializers = list(model.graph.initializer)
    del model.graph.initializer[:]
    light = onnx.ModelProto.FromString(model.SerializeToString())  # a message keeps memory that it once used
    for tensor in initializers:
        if _is_large(tensor):
            content = tensor.raw_data
            tensor = files.add(tensor, io.BytesIO(content), len(content))
        light.graph.initializer.append(tensor)
    return light, files


def is_in_file(tensor: TensorProto) -> bool:
    """Whether the model only refers to a tensor."""
    return bool(tensor.data_location == TensorProto.EXTERNAL)


def file_of(tensor: TensorProto) -> str:
    """The name of the file of a tensor."""
    return next(entry.value for entry in tensor.external_data if entry.key == "location")


def new_session(
    model: onnx.ModelProto, options: onnxruntime.SessionOptions, files: WeightFiles | None
) -> onnxruntime.InferenceSession:
    """Open a session on the CPU. Exceptions of onnxruntime pass through."""
    options.log_severity_level = 4  # errors come as exceptions
    # Spinning threads would slow down other work, for example a training run.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if files is None:
        given: bytes | Path = model.SerializeToString()
        return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    file = files.as_file(model)
    try:
        return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    finally:
        file.unlink()


def _is_large(tensor: TensorProto) -> bool:
    return bool(
        not is_in_file(tensor)
        and tensor.data_type == TensorProto.FLOAT
        and _size(tensor) >= LARGE_TENSOR_BYTES
        and tensor.HasField("raw_data")
    )


def _size(tensor: TensorProto) -> int:
    """The bytes of a tensor of float32; protobuf would copy it to count them."""
    return 4 * math.prod(tensor.dims)


def _field(key: int, length: int) -> bytes:
    """What is before the bytes of a field: its key and their length, as varints."""
    return bytes(_varint(key)) + bytes(_varint(length))


def _varint(number: int) -> Iterator[int]:
    while number > 127:
        yield number & 127 | 128
        number >>= 7
    yield number
