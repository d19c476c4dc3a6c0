"""The backends, which compute moves: a small interface, and onnxruntime behind it."""
