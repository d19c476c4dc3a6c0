"""What the flags of several commands mean together."""

import pytest
from octofold_client.cli.arguments import asked_for
from octofold_client.errors import UsageError


def test_a_version_is_read_from_the_name_or_the_flag() -> None:
    assert asked_for("swift:3", "3") == asked_for("swift", "3") == asked_for("swift:3") == ("swift", "3")


@pytest.mark.parametrize("version", ["2", "4"])
def test_a_model_with_a_version_and_another_version_is_an_error(version: str) -> None:
    with pytest.raises(UsageError, match=f"swift:3 means version 3, but --version is {version}"):
        asked_for("swift:3", version)
