"""Stubs for the parts of an ONNX file that the server changes before it loads the file."""
