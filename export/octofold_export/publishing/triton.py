"""The config.pbtxt with which Triton's onnxruntime backend serves the same folder as it is."""

from __future__ import annotations

_CONFIG = """\
# Written by octofold-export. Triton serves this folder as it is:
#   tritonserver --model-repository=models
name: "{name}"
backend: "onnxruntime"
default_model_filename: "{file}"
max_batch_size: {max_batch_size}
input [
  {{ name: "boards" data_type: TYPE_UINT8 dims: [ 16 ] }}
]
output [
  {{ name: "move" data_type: TYPE_INT8 dims: [ 1 ] reshape: {{ shape: [ ] }} }},
  {{ name: "probabilities" data_type: TYPE_FP32 dims: [ 4 ] }},
  {{ name: "votes" data_type: TYPE_UINT8 dims: [ 4 ] }},
  {{ name: "legal" data_type: TYPE_BOOL dims: [ 4 ] }}
]
dynamic_batching {{ }}
"""
_MAX_BATCH_SIZE = 1024


def config(name: str) -> str:
    """config.pbtxt of the model `name`: the float32 graph, batched dynamically up to 1,024 boards."""
    return _CONFIG.format(name=name, file="model.onnx", max_batch_size=_MAX_BATCH_SIZE)
