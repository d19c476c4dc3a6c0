"""Version policies: how they are written, and what is refused."""

from __future__ import annotations

import pytest
from octofold_server.config.policies import ALL, VersionPolicies, VersionPolicy, parse_policies


@pytest.mark.parametrize(
    ("text", "policies"),
    [
        ("all", VersionPolicies()),
        ("latest:2", VersionPolicies(VersionPolicy(most=2))),
        ("1,3", VersionPolicies(VersionPolicy(only=frozenset({1, 3})))),
        (
            "latest:1;cnn5=1,3;n-tuple=all",
            VersionPolicies(
                VersionPolicy(most=1), {"cnn5": VersionPolicy(only=frozenset({1, 3})), "n-tuple": ALL}
            ),
        ),
        ("cnn5=latest:1", VersionPolicies(ALL, {"cnn5": VersionPolicy(most=1)})),
    ],
)
def test_policies_are_written_for_all_models_and_for_single_ones(
    text: str, policies: VersionPolicies
) -> None:
    assert parse_policies(text) == policies
    assert parse_policies(str(policies)) == policies


@pytest.mark.parametrize(
    "text", ["", "latest", "latest:0", "0", "1,", "01", "all;all", "a=1;a=2", "a/b=1", "=1", "all;", "²"]
)
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the option's message says what is allowed
        parse_policies(text)
