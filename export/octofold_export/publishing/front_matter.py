"""Writes the metadata at the top of a version's page, which model hubs read to find and compare models.

The keys are those of Hugging Face. No license is among them: whoever publishes a model adds its license.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from octofold_game.contract.model import Card, Strength

TASK = "reinforcement-learning"
TAGS = ("2048", "game", "onnx", "onnxruntime", TASK)
GAME = "2048"
GOAL = 2048
"""The tile that wins the game."""


def front_matter(card: Card) -> list[str]:
    """The lines of the metadata of a card, as YAML between two marks."""
    return [
        "---",
        f"library_name: {'onnx' if card.player is None else 'octofold'}",
        f"pipeline_tag: {TASK}",
        "tags:",
        *(f"- {_scalar(tag)}" for tag in TAGS if card.player is None or "onnx" not in tag),
        *(_results(card.name, card.strength) if card.strength is not None else ()),
        "---",
        "",
    ]


def _results(name: str, strength: Strength) -> Iterator[str]:
    """The figures of an evaluation, as an index of results."""
    games = ", ".join(
        filter(None, [GAME, f"{strength.games:,} games", f"seed {strength.seed}", strength.precision])
    )
    yield from (
        "model-index:",
        f"- name: {_scalar(name)}",
        "  results:",
        "  - task:",
        f"      type: {TASK}",
        "    dataset:",
        f"      name: {_scalar(games)}",
        f"      type: {_scalar(GAME)}",
        "    metrics:",
    )
    yield from _metric("mean_reward", "average score", round(strength.average))
    yield from _metric("median_reward", "median score", round(strength.median))
    for row in strength.reached:
        if row.tile == GOAL:
            yield from _metric("success_rate", f"games that reach {GOAL}", row.share)


def _metric(kind: str, name: str, value: float) -> Iterator[str]:
    yield f"    - type: {kind}"
    yield f"      name: {_scalar(name)}"
    yield f"      value: {_scalar(value)}"


def _scalar(value: Any) -> str:
    """A value in YAML, of which JSON is a part."""
    return json.dumps(value)
