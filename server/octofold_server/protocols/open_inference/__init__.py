"""The Open Inference Protocol, version 2, with extensions of Triton, over gRPC and REST."""
