"""`octofold ready`: whether a server is ready, by the exit code."""

from argparse import Namespace

from octofold_client.cli.arguments import Subcommands, add_server, credentials_of
from octofold_client.errors import Unavailable
from octofold_client.evaluation.servers import diagnose
from octofold_client.rpc.client import Client

READY_SECONDS = 3.0


def add(subcommands: "Subcommands") -> None:
    parser = subcommands.add_parser(
        "ready",
        help="exit 0 if the server is ready, 1 otherwise",
        description="Exits with 0 when the server reports that it serves, and with 1 when it does not within "
        f"{READY_SECONDS:g} seconds: while it starts or drains, or when there is no server.",
    )
    add_server(parser)
    parser.set_defaults(run=ready)


def ready(options: Namespace) -> None:
    """Returns when the server says that it serves; raises `Unavailable` when it does not within seconds."""
    credentials = credentials_of(options)
    with Client(options.target, credentials=credentials) as client:
        try:
            client.wait_until_ready(READY_SECONDS)
        except Unavailable as error:
            raise diagnose(error, options.target, credentials) from None
