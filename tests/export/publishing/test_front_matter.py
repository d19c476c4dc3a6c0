"""The page of a version: its metadata in YAML, and its figures as the card has them."""

from typing import Any

import msgspec
import pytest
import yaml
from octofold_export.publishing.readme import describe
from octofold_game.contract.model import Alternative, Alternatives, Card, NoWorse, read_card
from support.shipped import newest

SWIFT = newest("swift")


@pytest.fixture
def card() -> Card:
    return read_card(SWIFT)


def metadata(card: Card) -> Any:
    """What hubs read, and nothing of the text below."""
    nothing, header, text = describe(card).decode().split("---\n", 2)
    assert nothing == ""
    assert text.startswith(f"\n# {card.name}, version {card.version}\n")
    return yaml.safe_load(header)


def test_a_hub_finds_the_kind_of_model_and_its_figures(card: Card) -> None:
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


def test_without_an_evaluation_there_is_no_index_of_results(card: Card) -> None:
    assert "model-index" not in metadata(msgspec.structs.replace(card, strength=None))


@pytest.mark.parametrize(
    ("margin", "low", "shown"),
    [
        (0.0018, 0.99823, "At most 0.18% worse: in 900 games of each, this version scored 100.0% of the "),
        (0.0018, 0.99823, "(99.82% to 104.00%; each limit"),
        (0.05, 0.95021, "(95.0% to 104.0%; each limit"),
    ],
)
def test_the_limit_on_the_page_never_contradicts_the_margin(
    card: Card, margin: float, low: float, shown: str
) -> None:
    found = NoWorse(
        than=1,
        margin=margin,
        games=900,
        cap=4_000,
        above_cap=(0.0, 0.0),
        ratio=1.0,
        ratio_interval=(low, 1.04),
        limit_error_rate=0.05,
    )
    assert shown in describe(msgspec.structs.replace(card, no_worse=found)).decode()


def test_the_page_says_after_how_many_moves_games_were_stopped(card: Card, alternative: Alternative) -> None:
    stopped = "The games were stopped after"
    for moves, shown in ((None, False), (1_024, True)):
        others = Alternatives(rows=(alternative,), command="octofold-export", moves=moves)
        page = describe(msgspec.structs.replace(card, alternatives=others)).decode()
        assert (f"{stopped} 1,024 moves." in page, stopped in page) == (shown, shown)
