"""Rebuilds the table of results in README.md from the model cards, so that nobody types figures by hand.

    python bench/table.py           # writes README.md
    python bench/table.py --check   # exits with 1 if the table in README.md is out of date

`octofold evaluate` measures the figures, and `octofold-export --record-strength` writes them into the cards.
This script needs only Python.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

START, END = "<!-- results:", "<!-- end of results -->"
SMALLEST_TILE = 1024
Card = dict[str, Any]


def main() -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--readme",
        type=Path,
        default=Path("README.md"),
        metavar="FILE",
        help="file to update (default: %(default)s)",
    )
    parser.add_argument(
        "--models",
        type=Path,
        default=Path("models"),
        metavar="DIR",
        help="model repository (default: %(default)s)",
    )
    parser.add_argument("--check", action="store_true", help="write nothing, and exit 1 if out of date")
    options = parser.parse_args()
    before = options.readme.read_text(encoding="utf-8")
    try:
        after = rebuilt(before, options.models)
    except ValueError as error:
        print(f"{options.readme}: {error}", file=sys.stderr)
        return 1
    if not options.check:
        options.readme.write_text(after, encoding="utf-8")
    elif after != before:
        print(
            f"{options.readme}: the table of results is out of date; run `make table`",
            file=sys.stderr,
        )
        return 1
    return 0


def rebuilt(readme: str, models: Path) -> str:
    """The text of README.md with a new table between its markers.

    Raises:
        ValueError: a marker is missing.
    """
    start, end = readme.find(START), readme.find(END)
    if not 0 <= start < end:
        raise ValueError(f"the markers {START} ... --> and {END} are missing")
    first_line = readme[start : readme.index("\n", start) + 1]
    return readme[:start] + first_line + table(measured(models)) + readme[end:]


def measured(models: Path) -> list[Card]:
    """For each model, its newest card with a measured strength; the strongest model comes first."""
    newest: dict[str, Card] = {}
    for file in sorted(models.glob("*/*/card.json"), key=lambda file: int(file.parent.name)):
        card = json.loads(file.read_text(encoding="utf-8"))
        if card["strength"] is not None:
            newest[card["name"]] = card
    return sorted(newest.values(), key=lambda card: -card["strength"]["average"])


def table(cards: list[Card]) -> str:
    """The table and a line with the commands that measured it."""
    tiles = sorted(
        {
            row["tile"]
            for card in cards
            for row in card["strength"]["reached"]
            if row["share"] and row["tile"] >= SMALLEST_TILE
        }
    )
    heading = ["model", "weights", "games", "average score", "median", "best"]
    heading += [f"reaches {tile}" for tile in tiles]
    rows = [heading, ["---", *["---:"] * (len(heading) - 1)], *(_row(card, tiles) for card in cards)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    commands = ", ".join(f"`{card['strength']['command']}`" for card in cards)
    note = f"All intervals are 95%; those of the average are normal. Measured with {commands}."
    return "\n".join([*lines, "", note, ""])


def _row(card: Card, tiles: list[int]) -> list[str]:
    strength = card["strength"]
    page = f"models/{card['name']}/{card['version']}/README.md"
    views = f"{card['decision_rule']} of {card['symmetries']} views" if card["symmetries"] > 1 else "1 view"
    reached = {row["tile"]: row for row in strength["reached"]}
    return [
        f"[`{card['name']}`]({page}), {views}, {strength['precision']}",
        f"{card['weights']:,}",
        f"{strength['games']:,}",
        f"{strength['average']:,.0f}{_interval(strength['average_interval'])}",
        f"{strength['median']:,.0f}",
        f"{strength['best']:,}",
        *(_share(reached.get(tile)) for tile in tiles),
    ]


def _interval(interval: list[float] | None) -> str:
    return "" if interval is None else f" ({interval[0]:,.0f} to {interval[1]:,.0f})"


def _share(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    low, high = row["interval"]
    return f"{row['share']:.1%} ({100 * low:.1f} to {100 * high:.1f})"


if __name__ == "__main__":
    sys.exit(main())
