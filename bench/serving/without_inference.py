"""Runs octofold-serve with a backend that answers at once, to measure the cost of gRPC and the server alone.

    python bench/serving/without_inference.py --port 50052

It takes the flags of octofold-serve and serves the models of its repository under their names.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray
from octofold_server.backends.backend import EVERYTHING, Moves, RequestedOutputs
from octofold_server.config.reading import read_config
from octofold_server.system.logs import set_up_log


class Table:
    """A backend that returns the same moves for all boards."""

    def __init__(self, largest: int) -> None:
        votes = np.tile(np.array([8, 0, 0, 0], np.uint8), (largest, 1))
        probabilities = (votes / 8).astype(np.float32)
        self._moves = Moves(np.zeros(largest, np.int8), probabilities, votes, votes > 0)

    def warm_up(self) -> None:
        """Do nothing: a constant answer needs no warm-up."""

    in_stages = False

    def batch_seconds(self, _boards: int) -> float:
        """Return 0: a constant answer takes no time worth measuring."""
        return 0.0

    def run(self, boards: NDArray[np.uint8], _requested: RequestedOutputs = EVERYTHING) -> Moves:
        """The same moves for each of `[N, 16]` boards."""
        return self._moves.rows(0, len(boards))


def main() -> None:
    """Run the benchmark."""
    config = read_config(sys.argv[1:])
    set_up_log(config.log_format, config.log_level)
    from octofold_server.process.lifecycle import serve  # which loads gRPC

    serve(config, lambda _model, layout, *_files: [Table(layout.max_batch_size)] * layout.lanes)


if __name__ == "__main__":
    main()
