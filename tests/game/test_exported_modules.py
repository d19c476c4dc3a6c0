"""The public modules of `octofold_game` exist, and so does all that the documentation imports."""

import re
import subprocess
import sys
from pathlib import Path

import octofold_game

DOCS = Path(__file__).parents[2] / "docs"


def test_every_module_in_all_can_be_imported() -> None:
    code = (
        "import sys as _sys; _sys.modules |= dict.fromkeys(('gymnasium', 'numba'))\n"  # no extra
        "from octofold_game import *; print(*(name for name in globals() if name[0] != '_'))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.split() == octofold_game.__all__ == sorted(set(octofold_game.__all__))


def test_the_documentation_imports_only_public_modules() -> None:
    imported = {
        name
        for page in DOCS.glob("*.md")
        for name in re.findall(r"(?:from|import) octofold_game\.(\w+)", page.read_text(encoding="utf-8"))
    }
    assert {"episodes", "rules"} <= imported <= set(octofold_game.__all__)
