"""octofold-serve with a bug on the thread that serves gRPC: NextMove blocks, or raises what nothing guards.

The first argument is "block" or "raise".
"""

from __future__ import annotations

import sys
import threading

from octofold_server.cli import main
from octofold_server.protocols.octofold_v1.service import OctofoldMethods


def block(*_: object) -> None:
    threading.Event().wait()


def fail(*_: object) -> None:
    raise SystemExit("not guarded")


OctofoldMethods.next_move = {"block": block, "raise": fail}[sys.argv[1]]  # type: ignore[method-assign]
sys.exit(main(sys.argv[2:]))
