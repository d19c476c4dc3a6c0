"""One ONNX graph that plays legal 2048 from raw boards, made of a trained network and published."""
