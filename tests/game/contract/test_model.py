"""Cards of published models are read completely or refused with the name of the wrong field."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from octofold_game.contract.model import (
    CARD_FILE,
    MAX_CARD_BYTES,
    CardError,
    encode_card,
    parse_card,
    read_card,
)
from support.shipped import CARDS

SERVING: dict[str, Any] = {
    "format": 1,
    "name": "tiny",
    "version": 3,
    "largest_exponent": 15,
    "precisions": {"fp32": {"file": "model.onnx", "sha256": "ab" * 32}},
}
FIRST = {
    **SERVING,
    "architecture": {"kind": "cnn", "layers": 5, "channels": 222, "exponents": 16},
    "weights": 818_074,
    "checkpoint_sha256": "cd" * 32,
    "decision_rule": "vote",
    "symmetries": 8,
    "precisions": {
        "fp32": {"file": "model.onnx", "sha256": "ab" * 32, "agreement": 1.0},
        "int8": {"file": "model.int8.onnx", "sha256": "ef" * 32, "agreement": 0.99},
    },
    "strength": {
        "games": 300,
        "seed": 1,
        "precision": "int8",
        "average": 70_000.5,
        "average_interval": [60_000.5, 80_000.5],
        "median": 65_000.0,
        "median_interval": [60_000, 70_000],
        "best": 200_000,
        "moves_per_second": 12_345.6,
        "reached": [{"tile": 2048, "share": 0.9, "interval": [0.8, 0.95]}],
        "outgrown": 0,
        "command": "octofold evaluate --model tiny --version 3 --games 300 --seed 1",
    },
    "exporter": "0.1.0",
}
"""A card of the first version of octofold-export, without boards, parity and stages."""


@pytest.mark.parametrize("file", CARDS, ids=lambda file: "/".join(file.parts[-3:-1]))
def test_a_shipped_card_is_read_and_written_back_byte_for_byte(file: Path) -> None:
    card = read_card(file.parent)
    assert (card.name, str(card.version)) == file.parts[-3:-1]
    assert encode_card(card) == file.read_bytes()


def test_a_card_of_the_first_version_still_loads() -> None:
    card = parse_card(json.dumps(FIRST))
    assert card.precisions["int8"].agreement == 0.99
    assert card.strength is not None
    assert card.strength.average_interval == (60_000.5, 80_000.5)
    assert card.boards is None


def test_a_card_needs_only_the_fields_for_serving() -> None:
    card = parse_card(json.dumps({**SERVING, "of a later version": {}}))
    assert (card.weights, card.decision_rule, card.strength) == (0, None, None)
    assert json.loads(encode_card(card)) == {**SERVING, "strength": None}


@pytest.mark.parametrize("field", SERVING)
def test_fields_for_serving_are_required(field: str) -> None:
    content = {name: value for name, value in SERVING.items() if name != field}
    with pytest.raises(CardError, match=rf"^card\.json: {field} is missing$"):
        parse_card(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 3, "precisions": "of another kind"}, "format must be 1 or 2, got 3"),
        ({"format": 2}, "player is missing"),
        ({"format": 2, "player": None}, "player is missing"),
        ({"format": 2, "player": {"kind": "expectimax"}}, "a card of format 2 cannot have precisions"),
        ({"format": 2, "player": {"kind": "os:system"}}, "player.kind is 'os:system', not a kind of player"),
        ({"player": {"kind": "expectimax"}}, "a card of format 1 cannot have player"),
        ({"format": "1"}, "format is '1', not a whole number"),
        ({"version": 0}, "version is 0; it must be at least 1"),
        ({"strength": {"games": 1}}, "strength.seed is missing"),
    ],
)  # fmt: skip
def test_a_wrong_field_of_a_card_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CardError) as refused:
        parse_card(json.dumps({**FIRST, **change}))
    assert str(refused.value) == f"card.json: {message}"


def test_a_card_that_is_not_a_regular_file_of_limited_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CardError, match=r"card\.json cannot be read: No such file"):
        read_card(tmp_path)
    os.mkfifo(tmp_path / CARD_FILE)
    with pytest.raises(CardError, match=r"card\.json cannot be read: it is not a regular file"):
        read_card(tmp_path)
    (tmp_path / CARD_FILE).unlink()
    with (tmp_path / CARD_FILE).open("wb") as file:
        file.truncate(MAX_CARD_BYTES + 1)
    with pytest.raises(CardError, match=rf"cannot be read: it has more than {MAX_CARD_BYTES} bytes"):
        read_card(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100_000, '{"format": ' + "9" * 5_000 + "}"])
def test_a_card_must_be_a_json_object(text: str) -> None:
    with pytest.raises(CardError, match=r"^card\.json is not (a )?JSON"):
        parse_card(text)
