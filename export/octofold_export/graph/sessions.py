"""Opens sessions of onnxruntime on the CPU."""

from __future__ import annotations

import onnx
import onnxruntime


def new_session(
    model: onnx.ModelProto, options: onnxruntime.SessionOptions | None = None
) -> onnxruntime.InferenceSession:
    """Return a session of `model` on the CPU. Exceptions of onnxruntime reach the caller."""
    options = options or onnxruntime.SessionOptions()
    options.log_severity_level = 4  # fatal only, because errors are raised as exceptions

    # Threads that spin while they wait would slow down other work, for example a training run.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
