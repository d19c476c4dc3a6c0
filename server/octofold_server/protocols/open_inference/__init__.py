"""The Open Inference Protocol, version 2, with the extensions of Triton: over gRPC and REST."""
