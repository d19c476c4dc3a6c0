"""Flags that several subcommands share, and the parsers of their values."""

import argparse
import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from octofold_game.commands.command_line import Parser
from octofold_game.commands.options import whole_number

from octofold_client.errors import InvalidRequest, UsageError
from octofold_client.evaluation.lockstep import PATIENCE_SECONDS
from octofold_client.evaluation.servers import Servers, report_missing
from octofold_client.evaluation.slices import slice_numbers
from octofold_client.rpc.credentials import CredentialFiles, Credentials
from octofold_client.rpc.targets import addresses_of

Subcommands: TypeAlias = "argparse._SubParsersAction[Parser]"

DEFAULT_TARGET = "127.0.0.1:50051"
RESULTS = Path("results")
"""Parent of the result folders if --out is not given."""
_NOT_IN_NAMES = re.compile(r"[^\w.,=-]+")
GAMES = 100
"""Number of games if --games is not given."""
PARALLEL, LOCAL_PARALLEL = 1024, 64
"""Games at a time. A server needs large batches. A slow local player plays fewer games at a time, so that the
first ones finish soon."""
MOST_GAMES = 10**9
MOST_PARALLEL = 2 * 65_536
"""Two groups, each with as many boards as a server accepts in one call."""
MOST_PATIENCE = 7 * 24 * 3600


def add_servers(parser: argparse.ArgumentParser, default: str = DEFAULT_TARGET, use: str = "") -> None:
    """Add `--target`, as `targets`, and the flags of `add_credentials`.

    Args:
        parser: the parser of a subcommand.
        default: the target without the flag; empty for no server.
        use: what several servers do, for the help.
    """
    parser.add_argument(
        "--target",
        type=targets,
        default=targets(default) if default else [],
        dest="targets",
        metavar="ADDRESS[,ADDRESS ...]",
        help=f"addresses of the servers{use}: HOST:PORT, or dns:///NAME:PORT for all servers of a name "
        f"({'default' if default else 'default with --model or --version'}: {DEFAULT_TARGET})",
    )
    add_credentials(parser)


def targets(text: str) -> list[str]:
    """The addresses of a target."""
    try:
        return list(addresses_of(text))
    except InvalidRequest as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("the target ")) from None


def servers(options: argparse.Namespace) -> Servers:
    """Connections to the servers of `add_servers`; a line on standard error names each that is missing."""
    return Servers(options.targets, credentials_of(options), on_missing=report_missing)


def add_credentials(parser: argparse.ArgumentParser) -> None:
    """Add the flags that `credential_files` reads."""
    security = parser.add_argument_group("security")
    security.add_argument("--tls", action="store_true", help="use TLS (implied by the next three options)")
    security.add_argument(
        "--tls-ca",
        type=Path,
        metavar="FILE",
        help="CA certificates to trust (PEM; default: the system's CA certificates)",
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


def credential_files(options: argparse.Namespace) -> CredentialFiles:
    """The files that the flags of `add_credentials` name.

    Raises:
        UsageError: a client certificate without its key, or the other way round.
    """
    if (options.tls_certificate is None) != (options.tls_key is None):
        raise UsageError("--tls-certificate and --tls-key need each other")
    return CredentialFiles(
        tls=options.tls,
        authorities=options.tls_ca,
        certificate=options.tls_certificate,
        key=options.tls_key,
        token=options.token_file,
    )


def credentials_of(options: argparse.Namespace) -> Credentials:
    """The credentials from the flags of `add_credentials`.

    Raises:
        UsageError: the flags contradict each other.
        InvalidRequest: the token is invalid.
        OSError: a file cannot be read.
    """
    return credential_files(options).read()


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add `--model` and `--version`."""
    parser.add_argument(
        "--model",
        default="",
        metavar="NAME",
        help="model, NAME or NAME:VERSION (default: the server's default model)",
    )
    parser.add_argument(
        "--version", default="", metavar="N", help="version of the model (default: the newest ready version)"
    )


def add_players(parser: argparse.ArgumentParser) -> None:
    """Add `--player`, which may be repeated."""
    parser.add_argument(
        "--player",
        action="append",
        default=[],
        dest="players",
        metavar="SPEC",
        help="local player, such as expectimax:depth=2; may be repeated (docs/players.md lists all)",
    )


def add_games(parser: argparse.ArgumentParser) -> None:
    """Add `--games`, `--seed`, `--parallel`, `--out`, `--patience` and `--watch`."""
    parser.add_argument(
        "--games",
        type=functools.partial(count, most=MOST_GAMES),
        metavar="N",
        help=f"number of games (default: {GAMES})",
    )
    parser.add_argument(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="seed of the new tiles; equal seeds give equal tiles (default: 0)",
    )
    parser.add_argument(
        "--parallel",
        type=functools.partial(count, most=MOST_PARALLEL),
        metavar="N",
        help=f"number of games at a time (default: {PARALLEL}; {LOCAL_PARALLEL} for a local player)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for replays and result (default: a new folder in results)",
    )
    parser.add_argument(
        "--patience",
        type=functools.partial(count, most=MOST_PATIENCE, least=0),
        default=int(PATIENCE_SECONDS),
        metavar="SECONDS",
        help="how long to wait for servers of which none answers, such as one that restarts "
        "(default: %(default)s s)",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="also keep the boards of running games in live.json of that folder, for the page of "
        "octofold-serve (tab Watch)",
    )


def add_slice(parser: argparse.ArgumentParser) -> None:
    """Add `--slice`."""
    parser.add_argument(
        "--slice",
        type=slice_of_games,
        metavar="K/N",
        help="play only slice K of the games, cut into N slices; octofold merge puts them together",
    )


def asked_for(text: str, version: str = "") -> tuple[str, str]:
    """The name and version in NAME or NAME:VERSION; `version` if the text has no version.

    Raises:
        UsageError: the text and `version` name different versions.
    """
    name, _, own = text.partition(":")
    if own and version and own != version:
        raise UsageError(f"{text} means version {own}, but --version is {version}")
    return name, own or version


def listed(text: str) -> list[str]:
    """The names in a comma-separated list; none may be empty or repeated."""
    names = text.split(",")
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} contains an empty name")
    if len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text} contains a name twice")
    return names


def name_in_folder(name: str) -> str:
    """A name as a part of a folder's: a local player's may contain a path, and a server's model anything."""
    return _NOT_IN_NAMES.sub("-", name)


def result_folders(name: str) -> Iterator[Path]:
    """The folders NAME, NAME-2, NAME-3 ... of results, without end."""
    yield RESULTS / name
    for number in itertools.count(2):
        yield RESULTS / f"{name}-{number}"


def count(text: str, most: int, least: int = 1) -> int:
    """A whole number from `least` to `most`."""
    number = whole_number(text)
    if number is None or not least <= number <= most:
        raise argparse.ArgumentTypeError(f"{text:.40} is not a number from {least} to {most:,}")
    return number


def seed(text: str) -> int:
    """A whole number from 0 to 2**64 - 1."""
    number = whole_number(text)
    if number is None or number >= 2**64:
        raise argparse.ArgumentTypeError(f"{text:.40} is not a number from 0 to 2**64 - 1")
    return number


def slice_of_games(text: str) -> tuple[int, int]:
    """The numbers of a slice K/N."""
    try:
        return slice_numbers(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
