"""Any body in float16, for GPUs: its input and output stay as they were."""

from __future__ import annotations

import warnings

import onnx
from onnxruntime.transformers.float16 import convert_float_to_float16


def half_body(body: onnx.ModelProto) -> onnx.ModelProto:
    """`body` with weights and activations in float16."""
    copy = onnx.ModelProto.FromString(body.SerializeToString())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of weights that are rounded to 0
        half: onnx.ModelProto = convert_float_to_float16(copy, keep_io_types=True)
    return half
