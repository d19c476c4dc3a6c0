"""Rebuilds the page, README.md, of every published version from its card, and leaves all other files alone.

python bench/strength/pages.py           # writes models/*/*/README.md
python bench/strength/pages.py --models DIR
"""

import argparse
import sys
from pathlib import Path

from octofold_export.errors import ExportError
from octofold_export.publishing.card_files import read_published
from octofold_export.publishing.readme import describe
from octofold_game.contract.model import CARD_FILE, README_FILE
from octofold_game.system.files import whole_file


def main() -> int:
    """Run the script; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--models",
        type=Path,
        default=Path("models"),
        metavar="DIR",
        help="model repository (default: %(default)s)",
    )
    models = parser.parse_args().models
    versions = sorted(card.parent for card in models.glob(f"*/*/{CARD_FILE}"))
    if not versions:
        print(f"--models must be a folder of NAME/VERSION/{CARD_FILE}, got {models}", file=sys.stderr)
        return 2
    try:
        for version in versions:
            page = describe(read_published(version))
            with whole_file(version / README_FILE) as partial:
                partial.write_bytes(page)
    except (ExportError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
