"""Rebuilds the page, README.md, of every published version in models/ from its card.

Run `python bench/strength/pages.py` in the root of the repository.
"""

import sys
from pathlib import Path

from octofold_export.errors import ExportError
from octofold_export.publishing.published_card import read_published
from octofold_export.publishing.readme import render_readme
from octofold_game.contract.model import CARD_FILE, README_FILE
from octofold_game.system.files import atomic_write


def main() -> int:
    """Run the script and return the exit code."""
    try:
        for card in sorted(Path("models").glob(f"*/*/{CARD_FILE}")):
            page = render_readme(read_published(card.parent))
            with atomic_write(card.parent / README_FILE) as partial:
                partial.write_bytes(page)
    except (ExportError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
