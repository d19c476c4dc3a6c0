"""`octofold ready`: exits with 0 if the server is ready, and with 1 otherwise."""

from dataclasses import dataclass

from octofold_game.commands.subcommands import Command

from octofold_client.cli.shared_flags import ServerFlags
from octofold_client.errors import Unavailable
from octofold_client.evaluation.server_connections import diagnose
from octofold_client.rpc.client import Client

READY_TIMEOUT_SECONDS = 3.0


@dataclass(kw_only=True)
class Options(ServerFlags):
    """Options of `octofold ready`."""


def ready(options: Options) -> None:
    """Wait until a server reports SERVING.

    Raises:
        Unavailable, NotOctofold: no Octofold server reported SERVING within `READY_TIMEOUT_SECONDS`.
    """
    credentials, target = options.credentials(), ",".join(options.targets)
    with Client(target, credentials=credentials) as client:
        try:
            client.wait_until_ready(READY_TIMEOUT_SECONDS)
        except Unavailable as error:
            raise diagnose(error, target, credentials) from None


COMMAND = Command(
    "ready",
    "exit 0 if a server is ready, 1 otherwise",
    f"Exits with 0 if a server reports SERVING within {READY_TIMEOUT_SECONDS:g} seconds. "
    "Otherwise, exits with 1: the server is starting or draining, or no server answers.",
    Options,
    ready,
    examples=("", "--target server:50051", "--tls-ca ca.pem --target server:443"),
)
