"""The flags for servers, credentials, models, local players and JSON, which several subcommands share."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeAlias

from octofold_game.commands.options import File, Kind, Name, WrongValue, option

from octofold_client.errors import InvalidRequest, UsageError
from octofold_client.evaluation.server_connections import Connections
from octofold_client.rpc.credentials import Credentials
from octofold_client.rpc.targets import addresses_of

DEFAULT_TARGET = "127.0.0.1:50051"


def _targets(text: str) -> list[str]:
    try:
        return list(addresses_of(text))
    except InvalidRequest as error:
        raise WrongValue(str(error).removeprefix("the target ")) from None


def _listed(text: str) -> list[str]:
    names = text.split(",")
    if not all(names):
        raise WrongValue(f"{text!r} contains an empty name")
    if len(set(names)) < len(names):
        raise WrongValue(f"names must differ, got {text!r}")
    return names


Targets = Annotated[list[str], Kind(_targets, "addresses", "ADDRESS[,ADDRESS ...]", is_plain=True)]
Names = Annotated[list[str], Kind(_listed, "names", "NAME[,NAME ...]", is_plain=True)]
SERVERS = (
    "addresses of the servers that share the calls or games: HOST:PORT, unix:PATH, or dns:///NAME:PORT for "
    f"all servers behind a DNS name (default: {DEFAULT_TARGET})"
)


@dataclass(kw_only=True)
class CredentialFlags:
    """The flags for TLS files and the token."""

    tls: bool = option(False, "use TLS (implied by the next three options)", heading="security")
    tls_ca: File | None = option(
        None, "CA certificates to trust (PEM; default: the system's CA certificates)", metavar="FILE"
    )
    tls_certificate: File | None = option(None, "client certificate (PEM)")
    tls_key: File | None = option(None, "private key of the client certificate (PEM)")
    token_file: File | None = option(
        None, "file with the bearer token (default: the environment variable OCTOFOLD_TOKEN)"
    )

    def credentials(self) -> Credentials:
        """Return the credentials that the flags name.

        Raises:
            UsageError: only one of client certificate and key is given.
            InvalidRequest: the token is invalid.
            OSError: a file cannot be read.
        """
        return Credentials.from_files(tls=self.tls, **self._files())

    def credentials_reader(self) -> Callable[[], Credentials]:
        """Return a function that reads the credentials, also on another machine with files at these paths."""
        files = {name: file and file.absolute() for name, file in self._files().items()}
        return partial(Credentials.from_files, tls=self.tls, **files)

    def _files(self) -> dict[str, Any]:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise UsageError("--tls-certificate and --tls-key must be given together")
        return {
            "authorities": self.tls_ca,
            "certificate": self.tls_certificate,
            "key": self.tls_key,
            "token": self.token_file,
        }


@dataclass(kw_only=True)
class ServerFlags(CredentialFlags):
    """The flag for the servers' addresses, with the flags for credentials."""

    targets: Targets = option([DEFAULT_TARGET], SERVERS, flag="--target")

    def servers(self) -> Connections:
        """Return a context manager that connects to the servers.

        A line on standard error names each server that does not answer.
        """
        return Connections(self.targets, self.credentials())


@dataclass(kw_only=True)
class ModelFlags:
    """The flags that name a model."""

    model: Name = option("", "model, NAME or NAME:VERSION (default: the server's default model)")
    version: Name = option("", "version of the model (default: the newest ready version)", metavar="N")


@dataclass(kw_only=True)
class PlayersFlag:
    """The flag for local players."""

    players: list[str] = option(
        [],
        "local player, such as expectimax:depth=2; may be repeated (docs/players.md lists all)",
        flag="--player",
        metavar="SPEC",
        words="append",
    )


def name_and_version(text: str, version: str = "") -> tuple[str, str]:
    """Split NAME:VERSION into name and version. Without VERSION, the version is `version`.

    Raises:
        UsageError: VERSION and `version` differ.
    """
    name, _, own = text.partition(":")
    if own and version and own != version:
        raise UsageError(f"{text} and --version {version} name different versions: leave out --version")
    return name, own or version


SCHEMA = 1
"""Version of the JSON objects, which docs/commands.md describes; it increases when a field is removed or
changes its meaning."""

Files: TypeAlias = dict[str, str | list[str]]
"""Paths of written files, by kind, such as `result` or `pictures`."""


@dataclass(kw_only=True)
class JsonFlag:
    """The flag `--json`."""

    json: bool = option(
        False, "print one JSON object and nothing else on standard output (see docs/commands.md)"
    )


def print_files(content: dict[str, Any], files: Files, as_json: bool) -> None:
    """Print `content` and the field `files` as one JSON object; without `as_json`, print only the paths."""
    if as_json:
        print_json(content | {"files": files})
        return
    for kind, named in files.items():
        one, each = (kind, [named]) if isinstance(named, str) else (kind.removesuffix("s"), named)
        for file in each:
            print(f"{one + ':':<8} {file}")


def print_json(content: dict[str, Any]) -> None:
    """Print the JSON object `content`. If it has no field `schema`, the field is added at its start."""
    json.dump({"schema": SCHEMA} | content, sys.stdout, indent=2)
    print()
