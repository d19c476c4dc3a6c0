"""octofold-serve that waits before it makes backends of a model if GATE has a file for it.

The variable GATE names a folder. The name of the file is the SHA-256 of the model file. While a process
waits, a second file exists whose name ends in the process id.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from octofold_server.backends.backend import Layout, Tensors
from octofold_server.backends.onnx_backend import OnnxBackend, onnx_lanes
from octofold_server.config.options import Config
from octofold_server.config.reading import read_config
from octofold_server.process.lifecycle import serve
from octofold_server.process.shared_service import ProcessSlot
from octofold_server.process.supervisor import serve_together
from octofold_server.system.logs import set_up_log


def make(model: bytes, layout: Layout, tensors: Tensors, *_: object) -> Sequence[OnnxBackend]:
    gate = Path(os.environ["GATE"]) / hashlib.sha256(model).hexdigest()
    if gate.exists():
        gate.with_suffix(f".{os.getpid()}").touch()
    while gate.exists():
        time.sleep(0.02)
    return onnx_lanes(model, layout, tensors)


def run(config: Config, slot: ProcessSlot | None = None) -> int:
    serve(config, make, slot)
    return 0


if __name__ == "__main__":
    wanted = read_config(sys.argv[1:])
    set_up_log(wanted.log_format, wanted.log_level)
    sys.exit(run(wanted) if wanted.processes == 1 else serve_together(wanted, run))
