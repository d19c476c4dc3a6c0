"""The backends, which compute moves: a small interface, and onnxruntime behind it."""

import os

# onnxruntime reports the models that it loads to Microsoft unless this is set before it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
