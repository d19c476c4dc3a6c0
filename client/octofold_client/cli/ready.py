"""`octofold ready`: exits with 0 if the server is ready, and with 1 otherwise."""

from argparse import Namespace

from octofold_client.cli.arguments import Subcommands, add_servers, credentials_of
from octofold_client.errors import Unavailable
from octofold_client.evaluation.servers import diagnose
from octofold_client.rpc.client import Client

READY_SECONDS = 3.0


def add(subcommands: "Subcommands") -> None:
    """Add the subcommand."""
    parser = subcommands.add_parser(
        "ready",
        help="exit 0 if a server is ready, 1 otherwise",
        description=f"Exits with 0 if a server reports SERVING within {READY_SECONDS:g} seconds, and "
        "with 1 otherwise: it is starting or draining, or no server answers.",
    )
    add_servers(parser)
    parser.set_defaults(run=ready)


def ready(options: Namespace) -> None:
    """Return once a server reports SERVING.

    Raises:
        Unavailable: it did not within `READY_SECONDS`.
    """
    credentials, target = credentials_of(options), ",".join(options.targets)
    with Client(target, credentials=credentials) as client:
        try:
            client.wait_until_ready(READY_SECONDS)
        except Unavailable as error:
            raise diagnose(error, target, credentials) from None
