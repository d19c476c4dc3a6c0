"""The flag `--judge`, and the judge that it means."""

import argparse
from contextlib import ExitStack

from octofold_client.cli.arguments import asked_for, servers
from octofold_client.contenders.judges import Judge, local_judge, served_judge
from octofold_client.contenders.player_specs import is_spec


def add_judge(parser: argparse.ArgumentParser, use: str) -> None:
    """Add `--judge`; `use` is what the command does with one, for the help."""
    parser.add_argument(
        "--judge",
        default="",
        metavar="WHO",
        help=f"{use}: a local player, such as ntuple:models/ntuple/2, or a model of the server, NAME or "
        "NAME:VERSION",
    )


def judge_of(options: argparse.Namespace, stack: ExitStack) -> Judge | None:
    """The judge of the flag; None without it.

    Raises:
        EvaluationError: the player is unknown, or does not value moves.
        OctofoldError: the server cannot be reached, or does not have the model.
    """
    if not options.judge:
        return None
    if is_spec(options.judge):
        return local_judge(options.judge)
    found = stack.enter_context(servers(options))
    return served_judge(found.client, found.select(*asked_for(options.judge)))
