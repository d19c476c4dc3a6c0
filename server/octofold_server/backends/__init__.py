"""What computes moves: one small interface, and onnxruntime behind it."""
