"""The backends, which compute moves: their interface, networks with onnxruntime, and players that search."""

import os

# Unless this variable is set before onnxruntime is loaded, it reports the loaded models to Microsoft.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
