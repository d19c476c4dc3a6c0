"""The client library. It requests moves from a server, plays full games and measures how well a model plays.

    with Client("127.0.0.1:50051") as client:
        client.next_moves(boards).moves

`octofold_client.errors` describes the exceptions. The library imports neither the server nor any
machine-learning library.
"""

from octofold_client import (
    _quiet_grpc,  # noqa: F401 - before anything else imports gRPC
    errors,
)
from octofold_client.contenders.served_model import RemotePlayer
from octofold_client.errors import *  # noqa: F403 - the names in its `__all__`
from octofold_client.evaluation_run import EvaluationResult, evaluate, merge
from octofold_client.rpc.aio import AsyncClient
from octofold_client.rpc.answers import Model, ModelVersion, NextMove, NextMoves
from octofold_client.rpc.client import Client, PendingAnswer
from octofold_client.rpc.credentials import Credentials
from octofold_client.rpc.retry import RetryPolicy

__all__ = [
    "AsyncClient",
    "Client",
    "Credentials",
    "EvaluationResult",
    "Model",
    "ModelVersion",
    "NextMove",
    "NextMoves",
    "PendingAnswer",
    "RemotePlayer",
    "RetryPolicy",
    "evaluate",
    "merge",
]
__all__ += errors.__all__
