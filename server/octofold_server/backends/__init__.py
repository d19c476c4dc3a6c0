"""The backends, which compute moves: their interface, networks with onnxruntime, and players that search."""

import os

# onnxruntime reports the loaded models to Microsoft, unless this variable is set before the import.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
