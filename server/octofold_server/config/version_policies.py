"""Policies that select the versions of a model to serve, and the kinds of players that may run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from octofold_game.contract.model import MODEL_NAME

_LATEST = re.compile(r"latest:([1-9]\d{0,8})", re.ASCII)
_VERSIONS = re.compile(r"[1-9]\d{0,17}(,[1-9]\d{0,17})*", re.ASCII)
_KIND = re.compile(r"[a-z][a-z0-9_-]{0,63}", re.ASCII)
"""Pattern of the names of kinds of players, as in cards."""


@dataclass(frozen=True)
class VersionPolicy:
    """A policy that selects the versions to serve, from the newest to the oldest."""

    max_versions: int | None = None
    """Maximum number of versions to serve; None for no limit."""
    only: frozenset[int] | None = None
    """Allowed versions; None for all."""

    def allows(self, version: int) -> bool:
        """Return whether the policy may select a version."""
        return self.only is None or version in self.only

    def __str__(self) -> str:
        if self.only is not None:
            return ",".join(map(str, sorted(self.only)))
        return "all" if self.max_versions is None else f"latest:{self.max_versions}"


ALL = VersionPolicy()


@dataclass(frozen=True)
class VersionPolicies:
    """The policies of all models: the default, and policies for single models."""

    default: VersionPolicy = ALL
    by_model: Mapping[str, VersionPolicy] = field(default_factory=dict)

    def of(self, model: str) -> VersionPolicy:
        """Return the policy of one model."""
        return self.by_model.get(model, self.default)

    def __str__(self) -> str:
        own = (f"{model}={policy}" for model, policy in self.by_model.items())
        return ";".join((str(self.default), *own))


def parse_policies(text: str) -> VersionPolicies:
    """Return the policies in a text such as "latest:1" or "all;cnn5=1,3;ntuple=latest:2".

    Raises:
        ValueError: the text does not have this form, or it names a model twice.
    """
    default, by_model = ALL, {}
    for number, item in enumerate(text.split(";")):
        model, named, policy = item.strip().rpartition("=")
        if named:
            if not MODEL_NAME.fullmatch(model) or model in by_model:
                raise ValueError(item)
            by_model[model] = _parse_policy(policy)
        elif number == 0:
            default = _parse_policy(policy)
        else:
            raise ValueError(item)
    return VersionPolicies(default, by_model)


def _parse_policy(text: str) -> VersionPolicy:
    if text == "all":
        return ALL
    if latest := _LATEST.fullmatch(text):
        return VersionPolicy(max_versions=int(latest[1]))
    if _VERSIONS.fullmatch(text):
        return VersionPolicy(only=frozenset(map(int, text.split(","))))
    raise ValueError(text)


def parse_player_kinds(text: str) -> tuple[str, ...]:
    """Return the kinds of players in a text such as "expectimax,perimeter"; "none" means no kind.

    Raises:
        ValueError: a kind is not a valid name.
    """
    kinds = () if text == "none" else tuple(text.split(","))
    if not all(map(_KIND.fullmatch, kinds)):
        raise ValueError(text)
    return kinds
