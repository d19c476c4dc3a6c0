"""mosec with one ONNX file, as its documentation recommends: dynamic batching, a worker process a core.

    OCTOFOLD_PEER=MODEL.onnx VENV/bin/python bench/peer_mosec.py --port PORT

mosec reads the arguments itself. A request is boards of 16 bytes each, its reply one int8 a board. Needs
mosec, onnxruntime and numpy, in an environment of its own.
"""

import os

import numpy as np
import onnxruntime
from mosec import Server, Worker

BATCH_CALLS = 32
SHORTEST_WAIT_MS = 1


class Moves(Worker):
    """One session without threads of its own."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            os.environ["OCTOFOLD_PEER"], options, providers=["CPUExecutionProvider"]
        )

    def deserialize(self, data: bytes) -> np.ndarray:
        return np.frombuffer(data, np.uint8).reshape(-1, 16)

    def forward(self, data: list[np.ndarray]) -> list[np.ndarray]:
        (moves,) = self._session.run(["move"], {"boards": np.concatenate(data)})
        return np.split(moves, np.cumsum([len(boards) for boards in data])[:-1])

    def serialize(self, data: np.ndarray) -> bytes:
        return data.tobytes()


if __name__ == "__main__":
    server = Server()
    lanes = len(os.sched_getaffinity(0))
    server.append_worker(Moves, num=lanes, max_batch_size=BATCH_CALLS, max_wait_time=SHORTEST_WAIT_MS)
    server.run()
