"""octofold-serve with a bug on the thread that serves gRPC, and an impatient watchdog.

The first argument says what the thread does in a call about boards: "block" for ever, "raise" an exception
that nothing catches, "pause" for two seconds the first time, or "shout" like a native library that writes
more than is read.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from typing import Any

from octofold_server.cli import main
from octofold_server.grpc_transport.unary import UnaryCalls
from octofold_server.process import watchdog


def block(*_: object) -> None:
    threading.Event().wait()


def fail(*_: object) -> None:
    raise SystemExit("not guarded")


take = UnaryCalls.take
has_paused = threading.Event()


def pause(calls: UnaryCalls[Any], arrived: Any) -> None:
    if not has_paused.is_set():
        has_paused.set()
        time.sleep(2)
    take(calls, arrived)


def shout(calls: UnaryCalls[Any], arrived: Any) -> None:
    library = ctypes.PyDLL(None)  # it keeps the interpreter's lock, so that no thread reads the output
    line = b"w" * 999 + b"\n"
    for _ in range(1000):
        library.write(2, line, len(line))
    take(calls, arrived)


if sys.argv[1] == "block":
    watchdog.STUCK_SECONDS = 3.0
failing: Any = {"block": block, "raise": fail, "pause": pause, "shout": shout}[sys.argv[1]]
UnaryCalls.take = failing  # type: ignore[method-assign]
sys.exit(main(sys.argv[2:]))
