"""Makes README.md of a version from its card. Equal cards give equal texts.

The metadata at the top is for model hubs, which use it to find and compare models. Hugging Face
defines the keys. The metadata lacks a license; the publisher of a model adds one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
from octofold_game.contract.model import Card, NoWorse, ServedPlayer, Strength

from octofold_export.description.description import Description

_TASK = "reinforcement-learning"
_TAGS = ("2048", "game", "onnx", "onnxruntime", _TASK)
_GOAL = 2048
"""The tile that wins the original game."""
_RULES = {
    "vote": "each view of the board votes for its best legal move, and ties are broken by probability",
    "mean": "the legal move with the best mean over the views",
}
_VIEWS = {8: "all eight symmetries", 4: "the four rotations", 2: "the board and its half turn"}
_ONE_VIEW = "the best legal move, from the board as it is"


def render_readme(card: Card) -> bytes:
    """Return the content of README.md for a card."""
    lines = [
        *_front_matter(card),
        f"# {card.name}, version {card.version}",
        "",
        *(_graph(card) if card.player is None else _player(card, card.player)),
        "",
        "`card.json` has all measurements.",
        "",
        "## Strength",
        "",
        *(["Not measured yet."] if card.strength is None else _strength(card.strength)),
        *([] if card.no_worse is None else _no_worse(card.no_worse)),
    ]
    return ("\n".join(lines) + "\n").encode()


def _player(card: Card, player: ServedPlayer) -> Iterator[str]:
    yield from ("A player of 2048 that searches for its moves. A server can serve it like a network.", "")
    options = ", ".join(f"{name} {value}" for name, value in player.options.items())
    yield f"- Kind `{player.kind}`{f'; {options}' if options else ''}. docs/players.md describes it."
    if card.value_unit is not None:
        yield f"- The output `values` has the values of the four moves, in {card.value_unit}."
    yield f"- Plays up to tile {1 << card.largest_exponent:,}."
    yield f"- SHA-256 of everything that determines its moves: `{card.checkpoint_sha256}`."


def _graph(card: Card) -> Iterator[str]:
    yield from ("A network that plays 2048, folded into one graph: raw boards in, legal moves out.", "")
    architecture = ", ".join(f"{key} {value}" for key, value in card.architecture.items())
    yield f"- Network: {architecture}; {card.weights:,} weights."
    if card.decision_rule is not None:
        views = card.symmetries
        rule = f"{_RULES[card.decision_rule]}; {_VIEWS[views]}" if views > 1 else _ONE_VIEW
        yield f"- Decision rule `{card.decision_rule}`: {rule}."
    if card.description is not None:
        yield from _inputs_and_outputs(card, msgspec.convert(card.description, Description))
    yield f"- Plays up to tile {1 << card.largest_exponent:,}."
    yield f"- Checkpoint: SHA-256 `{card.checkpoint_sha256}`."
    yield from ("", "| precision | files | moves as in fp32 |", "|---|---|---:|")
    for name, precision in card.precisions.items():
        files = ", ".join(f"`{listed.file}`" for listed in (precision, *precision.tensors.values()))
        agreement = precision.agreement if name != "fp32" else None
        yield f"| {name} | {files} | {'' if agreement is None else f'{agreement:.2%}'} |"
    for refused, why in card.not_published.items():
        yield f"| {refused} | not published: {why} | |"


def _inputs_and_outputs(card: Card, description: Description) -> Iterator[str]:
    reads, answers = description.reads, description.answers
    planes = f", {reads.planes} planes" if reads.planes else ""
    yield f"- Reads {reads.kind.replace('_', '-')} cells ({reads.layout}{planes}, {reads.type})."
    if answers.kind == "afterstate_value":
        points = f"; an output of 1 is {answers.points:,g} points" if answers.points != 1 else ""
        yield f"- A move is worth its reward plus the value of its afterstate{points}."
    else:
        yield f"- Answers with {answers.kind.replace('_', ' ')} of {', '.join(answers.actions)}."
    if card.value_unit is not None:
        yield f"- The output `value` is the value of the board; its unit: {card.value_unit}."
    if card.evidence is not None and card.evidence.problem:
        yield f"- Accepted although {card.evidence.problem}."
    if card.evidence is not None and card.evidence.warning:
        yield f"- Note: {card.evidence.warning}."


def _strength(strength: Strength) -> Iterator[str]:
    interval = strength.average_interval
    around = "" if interval is None else f" ({interval[0]:,.0f} to {interval[1]:,.0f})"
    yield (
        f"{strength.games:,} games{f' in {strength.precision}' if strength.precision else ''}, "
        f"95% intervals in brackets: average {strength.average:,.0f}{around}, "
        f"median {strength.median:,.0f}, best {strength.best:,}."
    )
    yield from ("", f"Measured with `{strength.command}`.", "")
    yield from ("| tile | games that reached it |", "|---:|---:|")
    for row in strength.reached:
        low, high = row.interval
        yield f"| {row.tile} | {row.share:.1%} ({100 * low:.1f} to {100 * high:.1f}) |"


def _no_worse(shown: NoWorse) -> Iterator[str]:
    low, high = shown.ratio_interval
    yield ""
    yield (
        f"At most {100 * shown.margin:.6g}% worse than version {shown.than}: in {shown.games:,} games each,"
        f" this version scored {shown.ratio:.2%} of the other's average ({low:.4%} to {high:.4%}; each limit "
        f"is wrong in at most {shown.limit_error_rate:.1%} of all runs)."
    )


def _front_matter(card: Card) -> Iterator[str]:
    """Yield the lines of the metadata: YAML front matter with values in JSON."""
    metadata = {
        "library_name": "onnx" if card.player is None else "octofold",
        "pipeline_tag": _TASK,
        "tags": [tag for tag in _TAGS if card.player is None or "onnx" not in tag],
    }
    yield "---"
    yield from (f"{key}: {json.dumps(value)}" for key, value in metadata.items())
    if card.strength is not None:
        yield f"model-index: {json.dumps(_results(card.name, card.strength))}"
    yield from ("---", "")


def _results(name: str, strength: Strength) -> list[object]:
    """Return the figures of an evaluation in the form of Hugging Face's `model-index`."""
    games = [f"{strength.games:,} games", f"seed {strength.seed}", strength.precision]
    metrics = [
        {"type": "mean_reward", "name": "average score", "value": round(strength.average)},
        {"type": "median_reward", "name": "median score", "value": round(strength.median)},
        *(
            {"type": "success_rate", "name": f"games that reach {_GOAL}", "value": row.share}
            for row in strength.reached
            if row.tile == _GOAL
        ),
    ]
    dataset = {"name": ", ".join(filter(None, ["2048", *games])), "type": "2048"}
    return [{"name": name, "results": [{"task": {"type": _TASK}, "dataset": dataset, "metrics": metrics}]}]
