"""Flags that several subcommands share, and how their values are written."""

import argparse
import functools
from pathlib import Path
from typing import TypeAlias

from octofold_game.command_line import Parser

from octofold_client.errors import EvaluationError
from octofold_client.rpc.credentials import Credentials

Subcommands: TypeAlias = "argparse._SubParsersAction[Parser]"

DEFAULT_TARGET = "127.0.0.1:50051"
RESULTS = Path("results")
"""Where the folders of results go that no --out names."""
PARALLEL, LOCAL_PARALLEL = 1024, 64
"""Games at a time. A server wants large batches; a slow local player should rather finish some games soon,
so that there is something to see.
"""
MOST_GAMES = 10**9
MOST_PARALLEL = 2 * 65_536
"""Two half-groups, each of as many boards as a server takes in one call."""


def add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        default=DEFAULT_TARGET,
        metavar="HOST:PORT",
        help="address of the server (default %(default)s)",
    )
    add_credentials(parser)


def add_servers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        type=listed,
        default=[DEFAULT_TARGET],
        dest="targets",
        metavar="HOST:PORT[,HOST:PORT ...]",
        help=f"addresses of the servers that share the games (default {DEFAULT_TARGET})",
    )
    add_credentials(parser)


def add_credentials(parser: argparse.ArgumentParser) -> None:
    security = parser.add_argument_group("security, for a server that requires it")
    security.add_argument("--tls", action="store_true", help="use TLS (implied by the next three options)")
    security.add_argument(
        "--tls-ca",
        type=Path,
        metavar="FILE",
        help="CA certificates to trust (PEM; default: the system's)",
    )
    security.add_argument("--tls-certificate", type=Path, metavar="FILE", help="client certificate (PEM)")
    security.add_argument(
        "--tls-key", type=Path, metavar="FILE", help="private key of the client certificate (PEM)"
    )
    security.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the bearer token (default: the environment variable OCTOFOLD_TOKEN)",
    )


def credentials_of(options: argparse.Namespace) -> Credentials:
    """The credentials that the flags of `add_credentials` name."""
    return Credentials.from_files(
        tls=options.tls,
        authorities=options.tls_ca,
        certificate=options.tls_certificate,
        key=options.tls_key,
        token=options.token_file,
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        default="",
        metavar="NAME",
        help="model, NAME or NAME:VERSION (default: the server's default model)",
    )
    parser.add_argument(
        "--version", default="", metavar="N", help="version of the model (default: the newest that is ready)"
    )


def add_players(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--player",
        action="append",
        default=[],
        dest="players",
        metavar="SPEC",
        help="player in this process, such as random or expectimax:depth=2 (docs/players.md lists them)",
    )


def add_games(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--games",
        type=functools.partial(count, most=MOST_GAMES),
        default=100,
        metavar="N",
        help="number of games (default %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="seed of the games: the same seed gives the same tiles (default 0)",
    )
    parser.add_argument(
        "--parallel",
        type=functools.partial(count, most=MOST_PARALLEL),
        metavar="N",
        help=f"games at a time (default {PARALLEL}; {LOCAL_PARALLEL} for a local player)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for replays and result (default: a new one in results)",
    )


def asked_for(text: str, version: str = "") -> tuple[str, str]:
    """The name and version that NAME or NAME:VERSION mean; `version` where it says none.

    Raises `EvaluationError` where both say a version, and not the same.
    """
    name, _, own = text.partition(":")
    if own and version and own != version:
        raise EvaluationError(f"{text} asks for version {own}, and --version for {version}")
    return name, own or version


def listed(text: str) -> list[str]:
    """The names in a list with commas; none may be empty or repeated."""
    names = text.split(",")
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name")
    if len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text} names something twice")
    return names


def count(text: str, most: int, least: int = 1) -> int:
    """A whole number from `least` to `most`."""
    if not text.isdecimal() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text} is not a number from {least} to {most:,}")
    return int(text)


def seed(text: str) -> int:
    """A whole number from 0 to 2**64 - 1."""
    if not text.isdecimal() or int(text) >= 2**64:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 to 2**64 - 1")
    return int(text)
