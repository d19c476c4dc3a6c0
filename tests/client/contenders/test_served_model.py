"""The version that a model's name selects, and errors if there is none."""

import pytest
from octofold_client import Model, ModelVersion, UnknownModel
from octofold_client.contenders.served_model import select
from octofold_game.contract.model import CARD_FORMAT, Card, GraphFile

DIGEST = "ab" * 32
CARD = Card(
    format=CARD_FORMAT,
    name="cnn5",
    version=1,
    largest_exponent=15,
    precisions={"int8": GraphFile(file="model.int8.onnx", sha256=DIGEST)},
)
READY_1 = ModelVersion("1", "ready", "", "int8", CARD)
READY_2 = ModelVersion("2", "ready", "", "fp32", None)
FAILED_3 = ModelVersion("3", "failed", "card.json is not JSON", "", None)
MODELS = (Model("cnn5", True, (READY_1, READY_2, FAILED_3)), Model("broken", False, (FAILED_3,)))


def test_no_name_means_the_default_and_its_newest_ready_version() -> None:
    selected = select(MODELS)
    assert (selected.model, selected.version) == ("cnn5", READY_2)
    assert selected.title == "cnn5 version 2"


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        ("cnn6", "", r"no model cnn6 \(it has cnn5, broken\); did you mean cnn5\?"),
        ("zzz", "", r"no model zzz \(it has cnn5, broken\)$"),
        ("cnn5", "9", "cnn5 has no version 9; it has 1, 2, 3"),
        ("cnn5", "3", r"cnn5 version 3 could not be loaded \(card.json is not JSON\)"),
        (
            "broken",
            "",
            r"no version of broken is ready: version 3 could not be loaded \(card.json is not JSON\)",
        ),
    ],
)
def test_a_model_or_version_that_is_not_served_is_refused_with_those_that_are(
    name: str, version: str, message: str
) -> None:
    with pytest.raises(UnknownModel, match=message):
        select(MODELS, name, version)
