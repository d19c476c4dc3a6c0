"""Makes onnxruntime sessions of an exported graph, and checks the graph against the contract.

This module sets the options of all sessions that run models.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import onnxruntime
from octofold_game.contract.graph import BOARDS, OUTPUTS, VALUE, VIEWS, Tensor
from octofold_game.errors import first_line

from octofold_server.backends.backend import Layout, Tensors
from octofold_server.backends.cuda import preload, why_unusable
from octofold_server.backends.onnx_pruning import GraphError, parsed
from octofold_server.backends.onnx_tables import PAGE_OFFSETS, PAGES

_TYPES = {"float32": "float"}
"""onnxruntime's names of element types, by numpy's name, if the two names differ."""

APPENDED_VIEWS = "octofold_views"
"""The output that `octofold_server.backends.onnx_views` appends to a graph. It is not called `views`, because
that may be the name of a tensor inside the graph."""


def has_output(model: bytes, name: str) -> bool:
    """Return False if a graph certainly lacks an output, and True if it probably has the output.

    The search for the start of a `ValueInfoProto` is faster than parsing a large graph.
    """
    start = re.escape(bytes((0x0A, len(name))) + name.encode())
    return re.search(start + rb"\x12.\x0a", model, re.DOTALL) is not None


def with_weights(alone: bytes, model: bytes) -> bytes:
    """Return the graph for moves alone with the initializers of the full graph, to which it refers.

    Raises `GraphError` if one of the graphs is not valid ONNX.
    """
    whole = parsed(alone)
    whole.graph.initializer.extend(parsed(model).graph.initializer)
    return whole.SerializeToString()


def new_session(
    model: bytes,
    layout: Layout,
    tensors: Tensors,
    *,
    capture: bool = False,
    outputs: Sequence[Tensor] = OUTPUTS,
) -> onnxruntime.InferenceSession:
    """Make a session of a graph and the tensors that it refers to by name.

    The session copies the graph and the tensors. It reads no file, even if the graph contains paths.

    Args:
        model: the graph.
        layout: the device and the threads.
        tensors: the tensors by name.
        capture: whether to record the GPU's work for each shape and replay it ("CUDA graphs" in onnxruntime's
            documentation). Every node of the graph must run on the GPU.
        outputs: the outputs that the graph must have.

    Raises:
        GraphError: onnxruntime cannot run the graph, or the graph breaks the contract.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # important messages are also raised as exceptions
    options.intra_op_num_threads = layout.threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The paths of tensors in the graph are relative to this "folder". It is a file, so they lead nowhere.
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(tensor) for tensor in tensors.values()]
    options.add_external_initializers(list(tensors), values)
    wanted = []
    if layout.device == "cuda":
        preload()
        wanted = gpu_providers(capture=capture)
    elif layout.half:
        # With layout optimizations, onnxruntime 1.31 crashes on a CPU for some float16 graphs.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    try:
        # Without the fallback, a failure on the GPU is an error. The graph must not run on the CPU silently.
        session = onnxruntime.InferenceSession(
            model, options, providers=[*wanted, "CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:  # onnxruntime's exceptions have only this base class
        raise GraphError(f"onnxruntime cannot load the graph: {first_line(error)}") from error
    for name, _ in wanted:
        if name not in session.get_providers():
            raise GraphError(why_unusable(name) or f"onnxruntime cannot use {name} for this graph")
    _check_contract(session, outputs)
    return session


def gpu_providers(*, capture: bool) -> list[tuple[str, dict[str, Any]]]:
    """Return the execution provider for a GPU with its options, as onnxruntime takes them."""
    cuda = {
        "cudnn_conv_algo_search": "HEURISTIC",  # an exhaustive search takes seconds for every shape
        "use_tf32": 0,  # TF32 would round the factors of float32 products to 10 bits
        "enable_cuda_graph": int(capture),
        # The arena keeps no reserve: the warm-up runs all shapes, so later runs need no more memory.
        "arena_extend_strategy": "kSameAsRequested",
    }
    return [("CUDAExecutionProvider", cuda)]


def _check_contract(session: onnxruntime.InferenceSession, outputs: Sequence[Tensor]) -> None:
    inputs = [tensor for tensor in session.get_inputs() if tensor.name not in (PAGE_OFFSETS, PAGES)]
    for kind, arguments, tensors in (
        ("input", inputs, (BOARDS,)),
        ("output", session.get_outputs(), outputs),
    ):
        contract = _signatures(tensors)
        actual = {argument.name: (argument.type, list(argument.shape[1:])) for argument in arguments}
        if kind == "output":
            # The graph may have these outputs, which this session does not use.
            for optional in {VIEWS.name, VALUE.name, APPENDED_VIEWS} - contract.keys():
                actual.pop(optional, None)
        for name in (*contract, *actual):
            if actual.get(name) != contract.get(name):
                raise GraphError(
                    f"the {kind} {name!r} must be {contract.get(name, 'absent')} according to the graph "
                    f"contract, got {actual.get(name, 'none')} (type and shape for one board)"
                )
        for argument in arguments:
            if not argument.shape or isinstance(argument.shape[0], int):
                raise GraphError(f"the {kind} {argument.name!r} must have a dynamic batch dimension")


def _signatures(tensors: Sequence[Tensor]) -> dict[str, tuple[str, list[int]]]:
    """Return the element types of tensors and their shapes without the batch dimension, by name."""
    kinds = {tensor.name: _TYPES.get(tensor.dtype.name, tensor.dtype.name) for tensor in tensors}
    return {tensor.name: (f"tensor({kinds[tensor.name]})", list(tensor.shape)) for tensor in tensors}
