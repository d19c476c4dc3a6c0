"""The page of a version has metadata in YAML, and the figures of the card."""

from typing import Any

import pytest
import yaml
from octofold_export.publishing.readme import render_readme
from octofold_game.contract.model import Card, read_card
from support.shipped import newest

SWIFT = newest("swift")


@pytest.fixture
def card() -> Card:
    return read_card(SWIFT)


def metadata(card: Card) -> Any:
    """Return the front matter of a version's page, which model hubs read."""
    nothing, header, text = render_readme(card).decode().split("---\n", 2)
    assert nothing == ""
    assert text.startswith(f"\n# {card.name}, version {card.version}\n")
    return yaml.safe_load(header)


def test_a_model_hub_finds_the_kind_of_model_and_its_figures(card: Card) -> None:
    found = metadata(card)
    assert found["library_name"] == "onnx"
    assert found["pipeline_tag"] == "reinforcement-learning"
    assert "2048" in found["tags"]
    (index,) = found["model-index"]
    (result,) = index["results"]
    assert index["name"] == "swift"
    assert result["task"] == {"type": found["pipeline_tag"]}
    assert card.strength is not None
    (goal,) = [row.share for row in card.strength.reached if row.tile == 2048]
    figures = {metric["type"]: metric["value"] for metric in result["metrics"]}
    assert figures == {
        "mean_reward": round(card.strength.average),
        "median_reward": round(card.strength.median),
        "success_rate": goal,
    }
