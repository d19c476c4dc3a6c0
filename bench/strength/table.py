"""Rebuilds the table of results in README.md from the model cards, so that nobody types figures by hand.

    python bench/strength/table.py           # writes README.md
    python bench/strength/table.py --check   # exits with 1 if the table in README.md is out of date

Both run in the root of the repository. `octofold evaluate` measures the strength, and
`octofold-export --record-strength` writes it into the cards. The speed is that of the table "All models" in
docs/speed.md.
"""

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from octofold_game.contract.model import CARD_FILE, Card, CardError, Interval, Reached, Strength, read_card

START, END = "<!-- results:", "<!-- end of results -->"
TILE = 16384
"""The tile whose share of games the table shows. The pages of the models have all tiles."""
_SPEED = re.compile(r"^\| `(?P<model>[\w-]+)` \| [\d,]+ \| (?P<speed>[\d,]+) \|", re.MULTILINE)
"""The pattern of a row in docs/speed.md: model, average score, boards/s."""


def main() -> int:
    """Run the script and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, and exit 1 if out of date")
    options = parser.parse_args()
    readme = Path("README.md")
    before = readme.read_text(encoding="utf-8")
    try:
        speeds = dict(_SPEED.findall(Path("docs/speed.md").read_text(encoding="utf-8")))
        new = table(measured(Path("models")), speeds)
    except (CardError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    start = before.index("\n", before.index(START)) + 1
    after = before[:start] + new + before[before.index(END) :]
    if not options.check:
        readme.write_text(after, encoding="utf-8")
    elif after != before:
        print("README.md: the table of results is out of date; run `make table`", file=sys.stderr)
        return 1
    return 0


def measured(models: Path) -> list[tuple[Card, Strength]]:
    """Return each shipped model's newest card with a measured strength, the strongest model first.

    Raises:
        CardError: a card cannot be read; the message names its folder.
    """
    newest: dict[str, tuple[Card, Strength]] = {}
    made_here = re.findall(
        r"^models/(\w+)/$", (Path(__file__).parents[2] / ".gitignore").read_text(), re.MULTILINE
    )
    for file in sorted(models.glob(f"*/*/{CARD_FILE}"), key=lambda file: int(file.parent.name)):
        if file.parts[-3] in made_here:
            continue
        try:
            card = read_card(file.parent)
        except CardError as error:
            raise CardError(f"{file.parent}: {error}") from error
        if card.strength is not None:
            newest[card.name] = card, card.strength
    return sorted(newest.values(), key=lambda found: -found[1].average)


def table(cards: list[tuple[Card, Strength]], speeds: Mapping[str, str]) -> str:
    """Return the table and a line with the commands that measured it."""
    heading = ["model", "weights", "average score", f"reaches {TILE}", "boards/s"]
    if missing := [card.name for card, _ in cards if card.name not in speeds]:
        raise ValueError(f"docs/speed.md has no boards/s of {', '.join(missing)}")
    found = [_row(card, strength, speeds[card.name]) for card, strength in cards]
    rows = [heading, ["---", *["---:"] * (len(heading) - 1)], *found]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    commands = {
        card.name: made.command.replace(
            f"--model {card.name} --version {card.version}", "--model NAME --version N"
        )
        for card, made in cards
    }
    usual = max(commands.values(), key=[*commands.values()].count, default="")
    others = "".join(
        f"; `{card.name}`: {made.games:,} games" for card, made in cards if commands[card.name] != usual
    )
    speed = " Boards/s: on [two cores of two machines](docs/speed.md#all-models)."
    return "\n".join([*lines, "", f"In brackets: 95% intervals. Measured by `{usual}`{others}.{speed}", ""])


def _row(card: Card, strength: Strength, speed: str) -> list[str]:
    page = f"models/{card.name}/{card.version}/README.md"
    reached = {row.tile: row for row in strength.reached}
    return [
        f"[`{card.name}`]({page}), {_kind(card, strength)}",
        f"{card.weights:,}" if card.weights else "",
        f"{strength.average:,.0f}{_interval(strength.average_interval)}",
        _share(reached.get(TILE)),
        speed,
    ]


def _kind(card: Card, strength: Strength) -> str:
    if card.player is not None:
        return ", ".join(["search", *(f"{name} {value}" for name, value in card.player.options.items())])
    views = f"{card.decision_rule} of {card.symmetries} views" if card.symmetries > 1 else "1 view"
    return f"{views}, {strength.precision}"


def _interval(interval: Interval | None) -> str:
    return "" if interval is None else f" ({interval[0]:,.0f} to {interval[1]:,.0f})"


def _share(row: Reached | None) -> str:
    if row is None:
        return ""
    low, high = row.interval
    return f"{row.share:.1%} ({100 * low:.1f} to {100 * high:.1f})"


if __name__ == "__main__":
    sys.exit(main())
