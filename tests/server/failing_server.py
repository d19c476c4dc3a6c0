"""octofold-serve with a bug on the thread that serves gRPC.

The first argument says what NextMove does: "block" for ever, "raise" what nothing guards, or "pause" for two
seconds the first time.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from octofold_server.cli import main
from octofold_server.protocols.octofold_v1.service import OctofoldMethods


def block(*_: object) -> None:
    threading.Event().wait()


def fail(*_: object) -> None:
    raise SystemExit("not guarded")


next_move = OctofoldMethods.next_move
has_paused = threading.Event()


def pause(methods: OctofoldMethods, call: Any, message: bytes) -> None:
    if not has_paused.is_set():
        has_paused.set()
        time.sleep(2)
    next_move(methods, call, message)


OctofoldMethods.next_move = {"block": block, "raise": fail, "pause": pause}[sys.argv[1]]  # type: ignore[method-assign]
sys.exit(main(sys.argv[2:]))
