"""`octofold models`: lists the models of a server."""

from argparse import Namespace

from octofold_client.cli.arguments import Subcommands, add_servers, servers
from octofold_client.rpc.answers import ModelVersion


def add(subcommands: "Subcommands") -> None:
    """Add the subcommand."""
    parser = subcommands.add_parser(
        "models",
        help="list the models of a server",
        description="Lists every model version of a server, with its state and its precision.",
    )
    add_servers(parser)
    parser.set_defaults(run=models)


def models(options: Namespace) -> None:
    """Print every model version of a server; a version that is not ready with its reason."""
    with servers(options) as found:
        for model in found.models:
            print(f"{model.name} (default)" if model.is_default else model.name)
            for version in model.versions:
                print(f"  {version.version}  {_described(version)}")


def _described(version: ModelVersion) -> str:
    if not version.ready:
        return f"{version.state}: {version.reason}" if version.reason else version.state
    card, parts = version.card, ["ready", version.precision]
    if card is not None and card.weights:
        parts.append(f"{card.weights:,} weights")
    if card is not None and card.decision_rule is not None:
        views = f" of {card.symmetries}" if card.symmetries else ""
        parts.append(f"{card.decision_rule}{views}")
    return ", ".join(part for part in parts if part)
