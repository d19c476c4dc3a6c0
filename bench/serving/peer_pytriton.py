"""Serves one ONNX file with PyTriton as its documentation recommends: dynamic batching, an instance per core.

    VENV/bin/python bench/serving/peer_pytriton.py MODEL.onnx GRPC_PORT BATCH_SIZE LANES

It needs nvidia-pytriton, onnxruntime and numpy in a separate environment.
"""

import sys
from collections.abc import Callable

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


def instance(file: str) -> Callable[..., dict[str, NDArray[np.generic]]]:
    """An inference function for PyTriton with its own session of `file`."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def infer(boards: NDArray[np.uint8]) -> dict[str, NDArray[np.generic]]:
        move, probabilities = session.run(["move", "probabilities"], {"boards": boards})
        return {"move": move[:, None], "probabilities": probabilities}

    batched: Callable[..., dict[str, NDArray[np.generic]]] = batch(infer)
    return batched


def main() -> None:
    """Serve until the process is stopped."""
    file, port, batch_size, lanes = sys.argv[1], *map(int, sys.argv[2:])
    config = TritonConfig(grpc_port=port, http_port=port + 1, metrics_port=port + 2, log_verbose=0)
    with Triton(config=config) as triton:
        triton.bind(
            model_name="boards",
            infer_func=[instance(file) for _ in range(lanes)],
            inputs=[Tensor(name="boards", dtype=np.uint8, shape=(16,))],
            outputs=[
                Tensor(name="move", dtype=np.int8, shape=(1,)),
                Tensor(name="probabilities", dtype=np.float32, shape=(4,)),
            ],
            config=ModelConfig(max_batch_size=batch_size, batcher=DynamicBatcher()),
        )
        triton.serve()


if __name__ == "__main__":
    main()
