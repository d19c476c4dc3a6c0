"""Writes README.md of a published version from its card. The same card gives the same text.

The metadata at its top is for model hubs, which find and compare models by it. The keys are those of Hugging
Face. No license is among them: the publisher of a model adds it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from octofold_game.contract.graph import TEMPERATURE
from octofold_game.contract.model import Card, Parity, ServedPlayer, Strength

from octofold_export.description.description import Description

_TASK = "reinforcement-learning"
_TAGS = ("2048", "game", "onnx", "onnxruntime", _TASK)
_GAME = "2048"
_GOAL = 2048
"""The tile that wins the game."""
_RULES = {
    "vote": "each view of the board votes for its best legal move, ties go to the larger probability",
    "mean": "the legal move that is best in the mean over the views",
}
_VIEWS = {8: "all eight symmetries", 4: "the four rotations", 2: "the board and its half turn"}
_ONE_RUN = "The intervals are those of the games; the weights are those of one training run."
_ONE_VIEW = "the best legal move, from the board as it is"


def describe(card: Card) -> bytes:
    """Write README.md of a card, as Markdown."""
    lines = [
        *_front_matter(card),
        f"# {card.name}, version {card.version}",
        "",
        *(_graph(card) if card.player is None else _player(card, card.player)),
        "",
        "## Strength",
        "",
        *_strength(card.strength),
        *_no_worse(card),
        *_alternatives(card),
    ]
    return ("\n".join(lines) + "\n").encode()


def _player(card: Card, player: ServedPlayer) -> Iterator[str]:
    yield "A player of 2048 that searches: a server answers with it as with a network."
    yield ""
    options = ", ".join(f"{name} {value}" for name, value in player.options.items())
    yield f"- Kind `{player.kind}`{f'; {options}' if options else ''}. docs/players.md describes it."
    if card.value_unit is not None:
        yield f"- The output `values` has the values of the four moves, in {card.value_unit}."
    yield f"- Plays up to tile {1 << card.largest_exponent:,}."
    yield f"- SHA-256 of what determines its moves: `{card.checkpoint_sha256}`."
    yield f"- Written by octofold {card.exporter}."
    if player.files:
        yield from ("", "| file | SHA-256 |", "|---|---|")
        yield from (f"| `{listed.file}` | `{listed.sha256}` |" for listed in player.files.values())


def _graph(card: Card) -> Iterator[str]:
    yield from (
        "A network that plays 2048, folded into one graph: raw boards in, legal moves out.",
        "",
        *_network(card),
        *_compact_tables(card),
        *_described(card),
        f"- Plays up to tile {1 << card.largest_exponent:,}.",
        f"- Checkpoint: SHA-256 `{card.checkpoint_sha256}`.",
        *_checked(card),
        f"- Written by octofold {card.exporter}.",
        "",
        *_precisions(card),
        *_stages(card),
        *_half(card),
    )


def _network(card: Card) -> Iterator[str]:
    architecture = ", ".join(f"{key} {value}" for key, value in card.architecture.items())
    yield f"- Network: {architecture}; {card.weights:,} weights."
    if card.decision_rule is not None:
        views = card.symmetries
        rule = f"{_RULES[card.decision_rule]}; {_VIEWS[views]}" if views > 1 else _ONE_VIEW
        yield f"- Decision rule `{card.decision_rule}`: {rule}."


def _described(card: Card) -> Iterator[str]:
    """The input and the output of the network; older cards give only the scale of values."""
    if card.description is None:
        if card.temperature is not None:
            yield f"- A move is worth its reward plus the value of its afterstate; {_e(card.temperature)}."
        return
    description = msgspec.convert(card.description, Description)
    reads, answers = description.reads, description.answers
    planes = f", {reads.planes} planes" if reads.planes else ""
    yield f"- Reads {reads.kind.replace('_', '-')} cells ({reads.layout}{planes}, {reads.type})."
    points = f"; 1 is {answers.points:,g} points" if answers.points != 1 else ""
    temperature = card.temperature or TEMPERATURE
    if answers.kind == "afterstate_value":
        yield f"- A move is worth its reward plus the value of its afterstate{points}; {_e(temperature)}."
    elif answers.kind == "action_values":
        unit = "points are" if card.tie is None else "of its own unit is"
        factor = f"{temperature:g} {unit} a factor of e"
        yield f"- Answers with the value of each action{points}; {factor}."
    else:
        yield f"- Answers with {answers.kind.replace('_', ' ')} of {', '.join(answers.actions)}."
    if card.value_unit is not None:
        yield f"- The output `value` is the value of the board; its unit: {card.value_unit}."
    if card.evidence is not None:
        evidence = card.evidence
        others = "".join(f", {score:,} with {name}" for name, score in list(evidence.others.items())[:1])
        doubt = f" Accepted although {evidence.problem}." if evidence.problem else ""
        doubt += f" Note: {evidence.warning}." if evidence.warning else ""
        yield f"- In {evidence.games} short games, it scores {evidence.score:,} points so{others}.{doubt}"


def _e(temperature: float) -> str:
    return f"{temperature:g} points are a factor of e"


def _compact_tables(card: Card) -> Iterator[str]:
    if card.compact_tables is not None:
        compact, folder = card.compact_tables, f"models/{card.name}/{card.version}"
        yield (
            f"- Compact tables: of {compact.entries:,} entries the {compact.kept:,} that matter, "
            f"rounded to {compact.codebook.count:,} values."
        )
        yield (
            f"- A teacher and a judge, too: `ntuple:{folder}` as a player, "
            f"`octofold-train student RECIPE --teacher {folder}`."
        )


def _checked(card: Card) -> Iterator[str]:
    if card.parity is not None:
        yield (
            f"- {card.parity.precision} answers as the trained network does on {card.parity.boards:,} boards "
            f"in a batch and on {card.parity.one_by_one:,} one by one{_equal(card.parity)}."
        )
    if card.boards is not None and len(card.precisions) > 1:
        boards = card.boards
        calibration = f"; quantized on {boards.calibration:,} others" if boards.calibration else ""
        yield (f"- Reduced precisions measured on {boards.measured:,} boards ({boards.source}){calibration}.")


def _equal(parity: Parity) -> str:
    return "" if parity.equal_moves is None else f"; {parity.equal_moves:.2%} of the moves are equal"


def _precisions(card: Card) -> Iterator[str]:
    yield "| precision | files | moves as in fp32 |"
    yield "|---|---|---:|"
    for name, precision in card.precisions.items():
        files = ", ".join(f"`{listed.file}`" for listed in (precision, *precision.tensors.values()))
        agreement = precision.agreement if name != "fp32" else None
        yield f"| {name} | {files} | {'' if agreement is None else f'{agreement:.2%}'} |"
    for refused, why in card.not_published.items():
        yield f"| {refused} | not published: {why} | |"


def _stages(card: Card) -> Iterator[str]:
    """The share of unchanged moves by stage."""
    measured = {
        name: precision.agreement_by_stage
        for name, precision in card.precisions.items()
        if precision.agreement_by_stage
    }
    if not measured:
        return
    yield ""
    yield f"| moves as in fp32 | boards | {' | '.join(measured)} |"
    yield f"|---|---:|{'---:|' * len(measured)}"
    for stage, first in next(iter(measured.values())).items():
        shares = " | ".join(f"{stages[stage].agreement:.2%}" for stages in measured.values())
        yield f"| {stage} | {first.boards:,} | {shares} |"


def _half(card: Card) -> Iterator[str]:
    if "fp16" in card.precisions:
        yield ""
        yield "fp16 is what a GPU takes. It was measured on a CPU, where onnxruntime rounds the weights and"
        yield "computes in float32; `python bench/gpu/gpu.py` measures it on a GPU."


def _strength(strength: Strength | None) -> Iterator[str]:
    if strength is None:
        yield "Not measured yet."
        return
    yield (
        f"{strength.games:,} games{f' in {strength.precision}' if strength.precision else ''}, "
        "95% intervals in brackets: "
        f"average {strength.average:,.0f}{_range(strength.average_interval, ',')}, "
        f"median {strength.median:,.0f}, best {strength.best:,}."
    )
    run = _ONE_RUN if strength.precision else ""
    yield from ("", f"Measured with `{strength.command}`.", *([run] if run else []), "")
    yield from ("| tile | games that reached it |", "|---:|---:|")
    for row in strength.reached:
        low, high = row.interval
        yield f"| {row.tile} | {row.share:.1%} ({100 * low:.1f} to {100 * high:.1f}) |"


def _no_worse(card: Card) -> Iterator[str]:
    if (shown := card.no_worse) is None:
        return
    # As many decimals as the margin, so that the rounded limit does not contradict it.
    margin = f"{100 * shown.margin:.6f}".rstrip("0").rstrip(".")
    decimals = max(1, len(margin.partition(".")[2]))
    low, high = (f"{limit:.{decimals}%}" for limit in shown.ratio_interval)
    yield from ("", f"## Against version {shown.than}", "")
    yield (
        f"At most {margin}% worse: in {shown.games:,} games of each, this version scored "
        f"{shown.ratio:.1%} of the average of version {shown.than} ({low} to {high}; each limit is "
        f"wrong in at most {shown.limit_error_rate:.1%} of all runs)."
    )
    if shown.cap is not None and shown.above_cap is not None:
        theirs, ours = shown.above_cap
        yield (
            f"Scores counted up to {shown.cap:,}; {theirs:.1%} of the games of version {shown.than} and "
            f"{ours:.1%} of those of this version scored more."
        )


def _alternatives(card: Card) -> Iterator[str]:
    if card.alternatives is None:
        return
    moves = card.alternatives.moves
    yield from (
        "",
        "## Other choices",
        "",
        "The same games with another export of the checkpoint or in another precision; differences are to",
        f"what is published, game by game. Measured with `{card.alternatives.command}`.",
        *([] if moves is None else [f"The games were stopped after {moves:,} moves."]),
        "",
        "| views | rule | precision | games | average | difference |",
        "|---:|---|---|---:|---:|---:|",
    )
    for row in card.alternatives.rows:
        rule = row.decision_rule if row.symmetries > 1 else ""
        yield (
            f"| {row.symmetries} | {rule} | {row.precision} | {row.games:,} "
            f"| {row.average:,.0f}{_range(row.average_interval, ',')} "
            f"| {row.difference:+,.0f}{_range(row.difference_interval, '+,')} |"
        )


def _range(interval: Sequence[float] | None, style: str) -> str:
    if interval is None:
        return ""
    low, high = interval
    return f" ({low:{style}.0f} to {high:{style}.0f})"


def _front_matter(card: Card) -> list[str]:
    """The lines of the metadata of a card, as YAML between two marks."""
    return [
        "---",
        f"library_name: {'onnx' if card.player is None else 'octofold'}",
        f"pipeline_tag: {_TASK}",
        "tags:",
        *(f"- {_scalar(tag)}" for tag in _TAGS if card.player is None or "onnx" not in tag),
        *(_results(card.name, card.strength) if card.strength is not None else ()),
        "---",
        "",
    ]


def _results(name: str, strength: Strength) -> Iterator[str]:
    """The figures of an evaluation, as an index of results."""
    games = ", ".join(
        filter(None, [_GAME, f"{strength.games:,} games", f"seed {strength.seed}", strength.precision])
    )
    yield from (
        "model-index:",
        f"- name: {_scalar(name)}",
        "  results:",
        "  - task:",
        f"      type: {_TASK}",
        "    dataset:",
        f"      name: {_scalar(games)}",
        f"      type: {_scalar(_GAME)}",
        "    metrics:",
    )
    yield from _metric("mean_reward", "average score", round(strength.average))
    yield from _metric("median_reward", "median score", round(strength.median))
    for row in strength.reached:
        if row.tile == _GOAL:
            yield from _metric("success_rate", f"games that reach {_GOAL}", row.share)


def _metric(kind: str, name: str, value: float) -> Iterator[str]:
    yield f"    - type: {kind}"
    yield f"      name: {_scalar(name)}"
    yield f"      value: {_scalar(value)}"


def _scalar(value: Any) -> str:
    """A value in YAML, of which JSON is a part."""
    return json.dumps(value)
