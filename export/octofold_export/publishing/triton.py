"""Writes config.pbtxt, so that Triton's onnxruntime backend can serve the same folder."""

from __future__ import annotations

from octofold_game.contract.model import BOARDS, GRAPH_FILES, OUTPUTS, Tensor

_CONFIG = """\
# Written by octofold-export. Triton serves this folder as it is:
#   tritonserver --model-repository=models
name: "{name}"
backend: "onnxruntime"
default_model_filename: "{file}"
max_batch_size: {max_batch_size}
input [
{inputs}
]
output [
{outputs}
]
dynamic_batching {{ }}
"""
_MAX_BATCH_SIZE = 1024
_TYPES = {"uint8": "TYPE_UINT8", "int8": "TYPE_INT8", "float32": "TYPE_FP32", "bool": "TYPE_BOOL"}


def config(name: str) -> str:
    """Write config.pbtxt of the model `name`, for the float32 graph in batches of up to 1,024 boards."""
    return _CONFIG.format(
        name=name,
        file=GRAPH_FILES["fp32"],
        max_batch_size=_MAX_BATCH_SIZE,
        inputs=_listed(BOARDS),
        outputs=_listed(*OUTPUTS),
    )


def _listed(*tensors: Tensor) -> str:
    return ",\n".join(
        f'  {{ name: "{tensor.name}" data_type: {_TYPES[tensor.dtype.name]} {_shape(tensor)} }}'
        for tensor in tensors
    )


def _shape(tensor: Tensor) -> str:
    if not tensor.shape:  # Triton writes an output with only the batch dimension as a reshaped one
        return "dims: [ 1 ] reshape: { shape: [ ] }"
    return f"dims: [ {', '.join(map(str, tensor.shape))} ]"
