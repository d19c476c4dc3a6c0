"""Serves one ONNX file with mosec as its documentation recommends: dynamic batching, one process per core.

    OCTOFOLD_PEER=MODEL.onnx VENV/bin/python bench/serving/peer_mosec.py --port PORT

mosec parses the arguments itself. A request is boards of 16 bytes each, and its reply is one int8 per board.
It needs mosec, onnxruntime and numpy in a separate environment.
"""

import os

import numpy as np
import onnxruntime
from mosec import Server, Worker
from numpy.typing import NDArray

BATCH_CALLS = 32
SHORTEST_WAIT_MS = 1


class MovesWorker(Worker):
    """A worker of mosec that runs the graph in one single-threaded session."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            os.environ["OCTOFOLD_PEER"], options, providers=["CPUExecutionProvider"]
        )

    def deserialize(self, data: bytes) -> NDArray[np.uint8]:
        """Read the boards `[N, 16]` of a request."""
        return np.frombuffer(data, np.uint8).reshape(-1, 16)

    def forward(self, data: list[NDArray[np.uint8]]) -> list[NDArray[np.int8]]:
        """Return the moves for the boards of several requests, run as one batch."""
        (moves,) = self._session.run(["move"], {"boards": np.concatenate(data)})
        return np.split(moves, np.cumsum([len(boards) for boards in data])[:-1])

    def serialize(self, data: NDArray[np.int8]) -> bytes:
        """Write the moves of a reply."""
        return data.tobytes()


if __name__ == "__main__":
    server = Server()
    lanes = len(os.sched_getaffinity(0))
    server.append_worker(MovesWorker, num=lanes, max_batch_size=BATCH_CALLS, max_wait_time=SHORTEST_WAIT_MS)
    server.run()
