"""The models of a server as players, and the selection of a version.

A version is selected once, before the work starts. A misspelled name therefore fails early, with a list of
the known names. One version plays all games of an evaluation, even if a newer one is published in the
meantime.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from octofold_game.commands.suggestions import did_you_mean
from octofold_game.contract.model import short_digest

from octofold_client.errors import OtherEvaluation, Unavailable, UnknownModel
from octofold_client.rpc.answers import Model, ModelVersion, NextMoves
from octofold_client.rpc.client import Client
from octofold_client.rpc.retry import NO_RETRY
from octofold_client.wording import listed

LOAD_TIMEOUT_SECONDS = 300.0
"""Timeout for loading a player. The server hashes the player's tables, which may be gigabytes large."""

FIRST_BOARD = np.array([[1, 1, *[0] * 14]], np.uint8)


@dataclass(frozen=True)
class ServedModel:
    """A ready model version of a server."""

    model: str
    version: ModelVersion

    @property
    def title(self) -> str:
        """Name and version for people."""
        return f"{self.model} version {self.version.version}"

    @property
    def is_player(self) -> bool:
        """Whether the version is a player, not a network."""
        return self.version.card is not None and self.version.card.player is not None

    @property
    def votes_decide(self) -> bool:
        """Whether the symmetric views of a board vote; False if they are averaged, True without a card."""
        return self.version.card is None or self.version.card.decision_rule != "mean"

    @property
    def value_unit(self) -> str:
        """Unit in which a player values moves or a network values boards; empty without values."""
        return (self.version.card and self.version.card.value_unit) or ""

    @property
    def largest_exponent(self) -> int | None:
        """Largest exponent that the model accepts, from its card; None if unknown."""
        return None if self.version.card is None else self.version.card.largest_exponent

    @property
    def sha256(self) -> str | None:
        """Digest of the model file or of the player, from the card; None if unknown."""
        card = self.version.card
        return None if card is None else card.sha256_of(self.version.precision)

    @cached_property
    def _files(self) -> tuple[str, int]:
        return self.version.precision, short_digest(self.sha256)

    def check(self, answer: NextMoves) -> NextMoves:
        """Return the answer if it was computed with the files of this version.

        Raises:
            OtherEvaluation: the answer was computed with other files of the same name and version.
        """
        if (answer.precision, answer.digest) == self._files:
            return answer
        wanted, found = (
            f"{self.title} {precision}".rstrip() + f" (digest {digest:016x})"
            for precision, digest in (self._files, (answer.precision, answer.digest))
        )
        raise OtherEvaluation(
            f"a different player answers now: {found}, expected {wanted}. Its answers were dropped. Serve "
            "the expected files and repeat the command, or start over in another folder"
        )


SEARCH_TIMEOUT_SECONDS = 600.0
"""Timeout of a call of searches. With less time, a server may search many boards less deep than it should."""


class ServedSource:
    """A `MoveSource` that asks the server for the moves of a model version."""

    def __init__(self, client: Client, served: ServedModel) -> None:
        self.target = client.target
        self.server_version = client.server_version
        # Do not retry here: the evaluation sends the boards of a failed call to another server.
        timeout = SEARCH_TIMEOUT_SECONDS if served.is_player else None
        self.ask = client.source_of(served.model, served.version.version, NO_RETRY, served.check, timeout)


class RemotePlayer:
    """An `octofold_game.player.Player` that asks a served model, with one call for each batch of boards."""

    def __init__(self, client: Client, name: str = "") -> None:
        self.name = name or client.target
        self._client = client

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Return the moves for boards `[N, 16]`: `[N]`, -1 if the game is over.

        Raises:
            OctofoldError: the call failed.
        """
        return self._client.next_moves(boards, with_probabilities=False).moves


def load_player(
    client: Client, models: Sequence[Model], name: str, version: str, on_wait: Callable[[str], None]
) -> Sequence[Model]:
    """Load the player `name` if the server loads it on demand. Return the models of the server.

    Args:
        client: the client of the server.
        models: the models of the server, as it last reported them.
        name: the name of a model.
        version: the version of the model; empty for the newest.
        on_wait: called with the name of the player if it must be loaded.

    Raises:
        Unavailable: the player was not loaded in time.
    """
    end = time.monotonic() + LOAD_TIMEOUT_SECONDS
    if _is_unloaded(models, name, version):
        on_wait(name)
    while _is_unloaded(models, name, version):
        try:
            client.begin_next_moves(FIRST_BOARD, model=name, version=version, retry=NO_RETRY).result()
        except Unavailable:  # the server has begun to load it
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        except UnknownModel:  # the player cannot be loaded; `select` explains why
            return client.list_models()
        models = client.list_models()
    return models


def _is_unloaded(models: Sequence[Model], name: str, version: str) -> bool:
    found = [
        known
        for model in models
        if model.name == name
        for known in model.versions
        if version in ("", known.version)
    ]
    return not any(known.ready for known in found) and any(
        known.card is not None and known.card.player is not None and known.state in ("unloaded", "loading")
        for known in found
    )


def select(models: Sequence[Model], name: str = "", version: str = "") -> ServedModel:
    """Return the version that answers a call with this `name` and `version`.

    An empty name means the default model, and an empty version means the newest ready version.

    Raises:
        UnknownModel: the model or version does not exist or is not ready; the message lists those that exist.
    """
    if name:
        model = next((model for model in models if model.name == name), None)
        if model is None:
            names = [model.name for model in models]
            near = did_you_mean(name, names)
            raise UnknownModel(f"the server has no model {name} (it has {listed(names)}){near}")
    else:
        model = next((model for model in models if model.is_default), None)
        if model is None:
            raise UnknownModel(
                f"the server has no default model: name a model (it has {listed(m.name for m in models)})"
            )
    if not version:
        newest = model.newest_ready
        if newest is None:
            reasons = "; ".join(_describe_state(known) for known in model.versions)
            raise UnknownModel(f"no version of {model.name} is ready: {reasons or 'it has no versions'}")
        return ServedModel(model.name, newest)
    for known in model.versions:
        if known.version == version and known.ready:
            return ServedModel(model.name, known)
        if known.version == version:
            raise UnknownModel(f"{model.name} {_describe_state(known)}")
    raise UnknownModel(
        f"{model.name} has no version {version}; it has {listed(known.version for known in model.versions)}"
    )


def _describe_state(version: ModelVersion) -> str:
    state = "could not be loaded" if version.state == "failed" else f"is {version.state}"
    return f"version {version.version} {state}" + (f" ({version.reason})" if version.reason else "")
