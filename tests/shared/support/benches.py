"""Runs scripts of bench/strength."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def figures_of(script: str, *arguments: str | Path) -> dict[str, Any]:
    """Run a script in the root of the repository, and return the content of the JSON line that it prints."""
    command = [sys.executable, ROOT / "bench" / "strength" / script, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (figures,) = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return dict(figures)
