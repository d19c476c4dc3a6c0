"""Which versions of a model are served: all of them, the newest few, or those that are named.

Knows nothing about folders, nor about whether a version can be served.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ALL", "VersionPolicies", "VersionPolicy", "parse_policies"]

_LATEST = re.compile(r"latest:([1-9]\d{0,8})", re.ASCII)
_VERSIONS = re.compile(r"[1-9]\d{0,17}(,[1-9]\d{0,17})*", re.ASCII)
_MODEL = re.compile(r"\w[\w.-]*")


@dataclass(frozen=True)
class VersionPolicy:
    """Versions to serve, from the newest to the oldest until there are `most` that can be served."""

    most: int | None = None  # None: no limit
    only: frozenset[int] | None = None  # None: any

    def __str__(self) -> str:
        if self.only is not None:
            return ",".join(map(str, sorted(self.only)))
        return "all" if self.most is None else f"latest:{self.most}"


ALL = VersionPolicy()


@dataclass(frozen=True)
class VersionPolicies:
    """A policy for every model: its own, or the one for all others."""

    others: VersionPolicy = ALL
    by_model: Mapping[str, VersionPolicy] = field(default_factory=dict)

    def of(self, model: str) -> VersionPolicy:
        """The policy of one model."""
        return self.by_model.get(model, self.others)

    def __str__(self) -> str:
        own = (f"{model}={policy}" for model, policy in self.by_model.items())
        return ";".join((str(self.others), *own))


def parse_policies(text: str) -> VersionPolicies:
    """Policies as `str` writes them: "latest:1", or "all;cnn5=1,3;ntuple=latest:2".

    Raises:
        ValueError: it is not written so, or names a model twice.
    """
    others, by_model = ALL, {}
    for number, item in enumerate(text.split(";")):
        model, named, policy = item.strip().rpartition("=")
        if named:
            if not _MODEL.fullmatch(model) or model in by_model:
                raise ValueError(item)
            by_model[model] = _parse_policy(policy)
        elif number == 0:
            others = _parse_policy(policy)
        else:
            raise ValueError(item)
    return VersionPolicies(others, by_model)


def _parse_policy(text: str) -> VersionPolicy:
    if text == "all":
        return ALL
    if latest := _LATEST.fullmatch(text):
        return VersionPolicy(most=int(latest[1]))
    if _VERSIONS.fullmatch(text):
        return VersionPolicy(only=frozenset(map(int, text.split(","))))
    raise ValueError(text)
