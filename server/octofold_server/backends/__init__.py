"""The backends, which compute moves: a small interface, and onnxruntime behind it."""

import os

# onnxruntime's builds report the models that they load to Microsoft unless told otherwise before they start.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
