"""`octofold models`: lists the models of a server."""

from argparse import Namespace

from octofold_client.cli.arguments import Subcommands, add_server, credentials_of
from octofold_client.evaluation.servers import Servers
from octofold_client.rpc.answers import ModelVersion


def add(subcommands: "Subcommands") -> None:
    """Add the subcommand."""
    parser = subcommands.add_parser("models", help="list the models of a server")
    add_server(parser)
    parser.set_defaults(run=models)


def models(options: Namespace) -> None:
    """Print every model version of a server; a version that is not ready with its reason."""
    with Servers([options.target], credentials_of(options)) as servers:
        for model in servers.models:
            print(f"{model.name} (default)" if model.is_default else model.name)
            for version in model.versions:
                print(f"  {version.version}  {_described(version)}")


def _described(version: ModelVersion) -> str:
    if not version.ready:
        return f"{version.state}: {version.reason}" if version.reason else version.state
    card = version.card or {}
    parts = ["ready", version.precision]
    if isinstance(weights := card.get("weights"), int):
        parts.append(f"{weights:,} weights")
    if rule := card.get("decision_rule"):
        parts.append(f"{rule} of {card.get('symmetries')}" if card.get("symmetries") else str(rule))
    return ", ".join(part for part in parts if part)
