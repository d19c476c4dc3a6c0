"""The interface of the players of an evaluation."""

from typing import Protocol

from octofold_client.rpc.answers import ModelVersion


class Contender(Protocol):
    """A served model version or a local player."""

    @property
    def model(self) -> str:
        """Name of the model or player."""

    @property
    def version(self) -> ModelVersion:
        """Version of the model; of a local player, the version of its package."""

    @property
    def title(self) -> str:
        """Name for people."""

    @property
    def largest_exponent(self) -> int | None:
        """Largest exponent that it can play with; a game ends when it exceeds this. None if unknown."""

    @property
    def sha256(self) -> str | None:
        """Digest of everything that determines the moves; None if unknown."""
