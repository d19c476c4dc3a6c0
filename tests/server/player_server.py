"""octofold-serve that finds the kinds of players in `tests/shared/support/kinds`."""

from __future__ import annotations

import sys
from pathlib import Path

from octofold_server.cli import main

sys.path.append(str(Path(__file__).parents[1] / "shared" / "support" / "kinds"))
if __name__ == "__main__":
    sys.exit(main())
