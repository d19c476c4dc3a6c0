"""The interface of everything that can play an evaluation's games."""

from typing import Protocol

from octofold_client.rpc.answers import ModelVersion


class Contender(Protocol):
    """A model version of a server, or a player in this process."""

    @property
    def model(self) -> str: ...

    @property
    def version(self) -> ModelVersion: ...

    @property
    def title(self) -> str:
        """The name that people see."""

    @property
    def largest_exponent(self) -> int | None:
        """Games end when they exceed it; None if unknown."""

    @property
    def sha256(self) -> str | None:
        """Digest of what decides the moves; None if unknown."""
