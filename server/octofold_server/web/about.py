"""What the page knows of a model."""

from __future__ import annotations

from typing import Any, Literal

from octofold_game.contract.graph import TEMPERATURE
from octofold_game.contract.model import Card, Precision


def described(
    card: Card,
    precision: Precision | Literal[""],
    *,
    is_default: bool,
    has_views: bool,
    is_ready: bool = True,
    loading_seconds: float | None = None,
) -> dict[str, Any]:
    """One of the models of `/page/about`."""
    return {
        "name": card.name,
        "version": str(card.version),
        "default": is_default,
        "is_ready": is_ready,
        "loading_seconds": loading_seconds,
        "views": has_views,
        "precision": precision,
        "largest_exponent": card.largest_exponent,
        "symmetries": card.symmetries,
        "rule": card.decision_rule,
        "weights": card.weights,
        "player": None if card.player is None else card.player.kind,
        "average": None if card.strength is None else card.strength.average,
        "average_interval": None if card.strength is None else card.strength.average_interval,
        **_values(card),
    }


def _values(card: Card) -> dict[str, Any]:
    """The unit of what the model says about moves, and the temperature that turns probabilities into it.

    A network of afterstate values answers in points. Its probabilities are their softmax.
    """
    answers = (card.description or {}).get("answers")
    kind = answers.get("kind") if isinstance(answers, dict) else None
    if kind != "afterstate_value":
        return {"value_unit": card.value_unit, "temperature": None}
    return {"value_unit": "points", "temperature": card.temperature or TEMPERATURE}
