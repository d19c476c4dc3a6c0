"""The model card: what a published version is, where it came from, how well it plays.

card.json is for programs (the service verifies the files it loads against it), README.md is the same for
people and generated from it. The same export gives the same card, to the byte.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from octofold_export.graph.heads import TEMPERATURE

Card = dict[str, Any]

FORMAT = 1
CARD_FILE = "card.json"
README_FILE = "README.md"

_RULES = {
    "vote": "each view of the board votes for its best legal move, ties go to the larger probability",
    "mean": "the legal move that is best in the mean over the views",
}
_VIEWS = {8: "all eight symmetries", 4: "the four rotations", 2: "the board and its half turn"}
_ONE_VIEW = "the best legal move, from the board as it is"


def encode(card: Card) -> bytes:
    """card.json of a card."""
    return (json.dumps(card, indent=2) + "\n").encode()


def describe(card: Card) -> bytes:
    """README.md of a card, as Markdown."""
    architecture = ", ".join(f"{key} {value}" for key, value in card["architecture"].items())
    views = card["symmetries"]
    rule = f"{_RULES[card['decision_rule']]}; {_VIEWS[views]}" if views > 1 else _ONE_VIEW
    lines = [
        f"# {card['name']}, version {card['version']}",
        "",
        "A network that plays 2048, folded into one graph: raw boards in, legal moves out.",
        "",
        f"- Network: {architecture}; {card['weights']:,} weights.",
        f"- Decision rule `{card['decision_rule']}`: {rule}.",
        *_compact_tables(card),
        *_described(card),
        f"- Plays up to tile {1 << card['largest_exponent']:,}.",
        f"- Checkpoint: SHA-256 `{card['checkpoint_sha256']}`.",
        *_parity(card),
        f"- Reduced precisions measured on {card['boards']['measured']:,} boards ({card['boards']['source']})"
        f"{_calibration(card)}.",
        f"- Written by octofold {card['exporter']}.",
        "",
        "| precision | files | moves as in fp32 |",
        "|---|---|---:|",
    ]
    for name, precision in card["precisions"].items():
        tensors = precision.get("tensors", {}).values()
        files = ", ".join(f"`{file['file']}`" for file in (precision, *tensors))
        share = f"{precision['agreement']:.2%}" if name != "fp32" else ""
        lines.append(f"| {name} | {files} | {share} |")
    for name, why in card.get("not_published", {}).items():
        lines.append(f"| {name} | not published: {why} | |")
    lines += [*_stages(card), *_half(card)]
    lines += ["", "## Strength", "", *_strength(card["strength"]), *_alternatives(card)]
    return ("\n".join(lines) + "\n").encode()


def _described(card: Card) -> list[str]:
    """What the network reads and answers; older cards only say how values count."""
    if "description" not in card:
        if "temperature" not in card:
            return []
        return [f"- A move is worth its reward plus the value of its afterstate; {_e(card['temperature'])}."]
    reads, answers = card["description"]["reads"], card["description"]["answers"]
    planes = f", {reads['planes']} planes" if reads["planes"] else ""
    lines = [f"- Reads {reads['kind'].replace('_', '-')} cells ({reads['layout']}{planes}, {reads['type']})."]
    points = f"; 1 is {answers['scale']:,g} points" if answers["scale"] != 1 else ""
    if answers["kind"] == "afterstate_value":
        lines.append(
            f"- A move is worth its reward plus the value of its afterstate{points}; {_e(TEMPERATURE)}."
        )
    elif answers["kind"] == "action_values":
        lines.append(f"- Answers with the value of each action{points}; {_e(TEMPERATURE)}.")
    else:
        lines.append(
            f"- Answers with {answers['kind'].replace('_', ' ')} of {', '.join(answers['actions'])}."
        )
    return lines + _evidence(card)


def _e(temperature: float) -> str:
    return f"{temperature:g} points are a factor of e"


def _evidence(card: Card) -> list[str]:
    if "evidence" not in card:
        return []
    evidence = card["evidence"]
    doubt = f" Accepted although {evidence['problem']}." if evidence["problem"] else ""
    return [
        f"- Agrees with {evidence['judge']} on {evidence['agreement']:.1%} of {evidence['boards']:,} boards, "
        f"where chance is {evidence['chance']:.1%}.{doubt}"
    ]


def _compact_tables(card: Card) -> list[str]:
    if "compact_tables" not in card:
        return []
    compact = card["compact_tables"]
    return [
        f"- Compact tables: of {compact['entries']:,} entries the {compact['kept']:,} that matter, "
        f"rounded to {compact['codebook']['count']:,} values.",
        f"- A teacher and a judge, too: `ntuple:models/{card['name']}/{card['version']}` as a player, "
        f"`octofold-train student RECIPE --teacher models/{card['name']}/{card['version']}`.",
    ]


def _parity(card: Card) -> list[str]:
    if "parity" not in card:
        return []
    parity = card["parity"]
    return [
        f"- {parity['precision']} answers as the trained network does on {parity['boards']:,} boards in a "
        f"batch and on {parity['one_by_one']:,} one by one."
    ]


def _stages(card: Card) -> list[str]:
    """How many moves stay as they are, stage by stage."""
    measured = {
        name: precision["agreement_by_stage"]
        for name, precision in card["precisions"].items()
        if "agreement_by_stage" in precision
    }
    if not measured:
        return []
    lines = [
        "",
        f"| moves as in fp32 | boards | {' | '.join(measured)} |",
        f"|---|---:|{'---:|' * len(measured)}",
    ]
    for stage, first in next(iter(measured.values())).items():
        shares = " | ".join(f"{stages[stage]['agreement']:.2%}" for stages in measured.values())
        lines.append(f"| {stage} | {first['boards']:,} | {shares} |")
    return lines


def _half(card: Card) -> list[str]:
    if "fp16" not in card["precisions"]:
        return []
    return [
        "",
        "fp16 is what a GPU takes. It was measured on a CPU, where onnxruntime rounds the weights and",
        "computes in float32; `python bench/gpu.py` measures it on a GPU.",
    ]


def _calibration(card: Card) -> str:
    boards = card["boards"]["calibration"]
    return f"; quantized on {boards:,} others" if boards else ""


def _strength(strength: dict[str, Any] | None) -> list[str]:
    if strength is None:
        return ["Not measured yet."]
    lines = [
        f"{strength['games']:,} games in {strength['precision']}, 95% intervals in brackets: "
        f"average {strength['average']:,.0f}"
        f"{_range(strength['average_interval'], ',')}, median {strength['median']:,.0f}, "
        f"best {strength['best']:,}.",
        "",
        f"Measured with `{strength['command']}`.",
        "",
        "| tile | games that reached it |",
        "|---:|---:|",
    ]
    return lines + [
        f"| {row['tile']} | {row['share']:.1%} ({100 * low:.1f} to {100 * high:.1f}) |"
        for row in strength["reached"]
        for low, high in (row["interval"],)
    ]


def _alternatives(card: Card) -> list[str]:
    if "alternatives" not in card:
        return []
    lines = [
        "",
        "## Other choices",
        "",
        "The same games with another export of the checkpoint or in another precision; differences are to",
        f"what is published, game by game. Measured with `{card['alternatives']['command']}`.",
        "",
        "| views | rule | precision | games | average | difference |",
        "|---:|---|---|---:|---:|---:|",
    ]
    for row in card["alternatives"]["rows"]:
        rule = row["decision_rule"] if row["symmetries"] > 1 else ""
        lines.append(
            f"| {row['symmetries']} | {rule} | {row['precision']} | {row['games']:,} "
            f"| {row['average']:,.0f}{_range(row['average_interval'], ',')} "
            f"| {row['difference']:+,.0f}{_range(row['difference_interval'], '+,')} |"
        )
    return lines


def _range(interval: Sequence[float] | None, style: str) -> str:
    if interval is None:
        return ""
    low, high = interval
    return f" ({low:{style}.0f} to {high:{style}.0f})"
