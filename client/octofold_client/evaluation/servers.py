"""Which servers answer, and whether all of them would play the same games."""

import sys
from collections.abc import Callable, Sequence

from octofold_client.contenders.contender import Contender
from octofold_client.contenders.served_model import ServedModel, select
from octofold_client.errors import DeadlinePassed, EvaluationError, OctofoldError, Unavailable
from octofold_client.evaluation.result_folder import Conditions, differences
from octofold_client.rpc.client import Client
from octofold_client.rpc.conversations import RetryPolicy
from octofold_client.rpc.credentials import Credentials


def select_on(targets: Sequence[str], name: str, version: str, credentials: Credentials) -> ServedModel:
    """The version that all these servers answer with. Raises `EvaluationError` where one has another."""
    first, *others = ((target, _select(target, name, version, credentials)) for target in targets)
    for target, selected in others:
        if Conditions.of(selected, 0) != Conditions.of(first[1], 0):
            raise EvaluationError(
                f"{target} answers with another {selected.title} than {first[0]}: "
                f"{differences(Conditions.of(first[1], 0), Conditions.of(selected, 0))}"
            )
    return first[1]


def answering(targets: Sequence[str], credentials: Credentials) -> Sequence[str]:
    """Those of the servers that are there; each other one is named on standard error, so that an evaluation
    that lost a server goes on by the same command. Raises as `Client` does where none is there.
    """
    missing: dict[str, OctofoldError] = {}
    for target in targets:
        try:
            with first_client_of(target, credentials) as client:
                client.list_models()
        except (Unavailable, DeadlinePassed) as error:
            missing[target] = error
    if len(missing) == len(targets):
        raise missing[targets[0]]
    for target, reason in missing.items():
        print(f"{target} is not asked: {reason}", file=sys.stderr)
    return [target for target in targets if target not in missing]


def _select(target: str, name: str, version: str, credentials: Credentials) -> ServedModel:
    with first_client_of(target, credentials) as client:
        return select(client.list_models(), name, version)


def first_client_of(target: str, credentials: Credentials) -> Client:
    """A client that gives up soon, for the call that finds out whether a server is there at all."""
    return Client(target, timeout_seconds=10.0, retry=RetryPolicy(attempts=3), credentials=credentials)


def client_of(
    target: str,
    selected: Contender,
    credentials: Credentials,
    while_waiting: Callable[[], None] = lambda: None,
) -> Client:
    """A client of exactly this version, whatever is published meanwhile."""
    return Client(
        target,
        model=selected.model,
        version=selected.version.version,
        credentials=credentials,
        while_waiting=while_waiting,
    )
