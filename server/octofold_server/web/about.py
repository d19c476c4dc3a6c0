"""What the page knows of a model, whether a server runs it or the browser itself."""

from __future__ import annotations

from typing import Any

from octofold_game.contract.model import Card, Precision


def described(card: Card, precision: Precision, *, is_default: bool, has_views: bool) -> dict[str, Any]:
    """One of the models of `/page/about` and of the `models.json` of a static site."""
    return {
        "name": card.name,
        "version": str(card.version),
        "default": is_default,
        "views": has_views,
        "precision": precision,
        "largest_exponent": card.largest_exponent,
        "symmetries": card.symmetries,
        "rule": card.decision_rule,
        "weights": card.weights,
        "average": None if card.strength is None else card.strength.average,
    }
