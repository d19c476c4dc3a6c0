"""Stubs for the parts of ONNX files that the server changes before loading them."""
