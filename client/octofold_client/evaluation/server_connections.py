"""Connects to the servers that share an evaluation, and requests the list of models from each."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Self

from octofold_client.contenders.local_players import Contender, LocalContender
from octofold_client.contenders.player_thread import PlayerThread
from octofold_client.contenders.served_model import ServedModel, ServedSource, load_player, select
from octofold_client.errors import DeadlinePassed, EvaluationError, OctofoldError, Unavailable
from octofold_client.evaluation.playing import MoveSource
from octofold_client.evaluation.result_folder import Conditions, differences
from octofold_client.rpc.answers import Model
from octofold_client.rpc.client import POLL_SECONDS, Client
from octofold_client.rpc.connection_errors import explain_tls, speaks_tls
from octofold_client.rpc.credentials import Credentials
from octofold_client.rpc.retry import FIRST_CALL_RETRY
from octofold_client.rpc.targets import addresses_of, server_count

FIRST_CALL_TIMEOUT_SECONDS = 10.0
"""Timeout of the first call, short enough that a command fails soon if no server answers."""


def diagnose(error: OctofoldError, target: str, credentials: Credentials) -> OctofoldError:
    """Return `error`, or a clearer error if a TLS handshake with `target` shows the cause."""
    if not isinstance(error, Unavailable):
        return error
    if credentials.tls:
        reason = explain_tls(target, credentials.authorities)
        return error if reason is None else Unavailable(reason)
    if speaks_tls(target):
        return Unavailable(
            f"{target} uses TLS: use --tls, or --tls-ca FILE if the system does not trust its CA"
        )
    return error


class Connections:
    """Connections to one or more servers; a context manager.

    If only some servers answer, messages on standard error name the other servers. Another message names each
    player that a server has to load.

    Args:
        targets: targets as in `rpc.targets`, at least one. Each address in them gets its own client.
        credentials: credentials for all servers.
        while_waiting: called every 0.2 s while a call waits; an exception from it ends the call.
        retry_timeout_seconds: timeout for retries if no server answers; 0 for no retries.
    """

    def __init__(
        self,
        targets: Sequence[str],
        credentials: Credentials,
        while_waiting: Callable[[], None] = lambda: None,
        retry_timeout_seconds: float = 0.0,
    ) -> None:
        self._retry_timeout_seconds = retry_timeout_seconds
        self._targets = [address for target in targets for address in addresses_of(target)]
        self._credentials = credentials
        self._while_waiting = while_waiting
        self._answering: list[tuple[Client, tuple[Model, ...]]] = []
        self._together: Client | None = None

    def __enter__(self) -> Self:
        """Connect to all servers and ask them for their models.

        Raises:
            OctofoldError: no server answers, or a server refuses the call.
        """
        with ExitStack() as stack:
            clients = [
                stack.enter_context(
                    Client(target, credentials=self._credentials, while_waiting=self._while_waiting)
                )
                for target in self._targets
            ]
            end = time.monotonic() + self._retry_timeout_seconds
            missing = self._ask(clients)
            if not self._answering and self._retry_timeout_seconds:
                print(f"retrying for {self._retry_timeout_seconds:g} s: {missing[0][1]}", file=sys.stderr)
            while not self._answering and time.monotonic() < end:
                self._while_waiting()
                time.sleep(POLL_SECONDS)
                missing = self._ask(clients)
            if len(missing) > 1 and not self._answering:
                reasons = "; ".join(str(reason) for _, reason in missing)
                raise Unavailable(f"none of the {len(missing)} servers answers: {reasons}")
            if not self._answering:
                raise missing[0][1]
            for target, reason in missing:
                reason_alone = str(reason).removeprefix(f"{target}: ")
                print(f"continuing without {target}: {reason_alone}", file=sys.stderr)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _ask(self, clients: Sequence[Client]) -> list[tuple[str, OctofoldError]]:
        """Ask all servers for their models; return target and error of each server that does not answer."""
        missing = []
        for client in clients:
            try:
                models = client.list_models(
                    timeout_seconds=FIRST_CALL_TIMEOUT_SECONDS, retry=FIRST_CALL_RETRY
                )
            except (Unavailable, DeadlinePassed) as failure:
                missing.append((client.target, diagnose(failure, client.target, self._credentials)))
            else:
                self._answering.append((client, models))
        return missing

    @property
    def target(self) -> str:
        """The addresses of all servers that answer, as one target."""
        return ",".join(client.target for client, _ in self._answering)

    @property
    def client(self) -> Client:
        """A client whose calls go to all servers that answer."""
        if len(self._answering) == 1:
            return self._answering[0][0]
        if self._together is None:
            together = Client(self.target, credentials=self._credentials, while_waiting=self._while_waiting)
            self._together = self._stack.enter_context(together)
        return self._together

    @property
    def models(self) -> tuple[Model, ...]:
        """The models of the first server that answers."""
        return self._answering[0][1]

    def select(self, name: str = "", version: str = "") -> ServedModel:
        """Return the model with this name and version on all servers; empty values select the defaults.

        Raises:
            UnknownModel: a server does not have the version, or the version is not ready or cannot be loaded.
            Unavailable: a server does not load the player in time.
            EvaluationError: two servers have different model files.
        """

        def report_loading(player: str) -> None:
            print(f"the server is loading {player} ...", file=sys.stderr)  # this may take a minute

        self._answering = [
            (client, tuple(load_player(client, models, name, version, report_loading)))
            for client, models in self._answering
        ]
        first, *others = [select(models, name, version) for _, models in self._answering]
        wanted, first_target = Conditions.of(first, 0), self._answering[0][0].target
        for (client, _), served in zip(self._answering[1:], others, strict=True):
            if (conditions := Conditions.of(served, 0)) != wanted:
                raise EvaluationError(
                    f"{client.target} and {first_target} have different files of {served.title}: "
                    f"{differences(wanted, conditions)}"
                )
        return first

    def sources(self, served: ServedModel) -> list[ServedSource]:
        """Return sources of the moves of `served`, one for each server that `server_count` counts."""
        return [
            ServedSource(client, served)
            for client, _ in self._answering
            for _ in range(server_count(client.target))
        ]


def sources_of(contender: Contender, servers: Connections | None, stack: ExitStack) -> Sequence[MoveSource]:
    """Return the sources of a player's moves: `servers`, or a thread that `stack` closes."""
    if isinstance(contender, LocalContender):
        return [stack.enter_context(PlayerThread(contender))]
    assert servers is not None
    return servers.sources(contender)
