"""Torch's converter to ONNX, which prepares itself once in a process and not at every export."""

from functools import cache


def prepare_once() -> None:
    """Keep the 500 translations that the converter parses at every export, and the 54 lookups of operators.

    They take most of the time of an export.
    """
    try:
        import torch._export.utils as lookups
        from torch.onnx._internal.exporter._registration import ONNXRegistry
    except ImportError:  # a torch of another layout is only slower
        return
    if not hasattr(ONNXRegistry.from_torchlib, "cache_info"):
        ONNXRegistry.from_torchlib = staticmethod(cache(ONNXRegistry.from_torchlib))  # type: ignore[method-assign]
        lookups._materialize_cpp_cia_ops = cache(lookups._materialize_cpp_cia_ops)


def convert_once() -> None:
    """Convert a network, after which all that the converter imports and prepares is there."""
    import numpy as np
    import torch
    from octofold_export.sources.torch_network import TorchNetwork

    torch.set_num_threads(1)
    prepare_once()
    TorchNetwork(torch.nn.Linear(16, 4), "first").body(["output"], np.zeros((3, 16), np.float32))
