"""The target of a client: the address of a server, a name of several servers, or a list of both.

HOST:PORT is one server. dns:///NAME:PORT means all servers to which the DNS name currently resolves.
dns://RESOLVER/NAME:PORT asks the given resolver. unix:PATH is the socket of a server on this machine. Commas
separate several addresses. Spaces around commas are ignored.
"""

import re
from functools import lru_cache

from octofold_client.errors import InvalidRequest

ASSUMED_SERVERS_PER_NAME = 4
"""Assumed number of servers behind a DNS name, which gRPC does not report. If there are more, some of them
are idle at times."""

_DNS = r"dns://[^\s/,]*/"
_HOST = r"[^\s/:,\[\]]+|\[[0-9A-Fa-f:.]+(%[\w.-]+)?\]"
_ADDRESS = re.compile(rf"(?P<dns>{_DNS})?(?P<host>{_HOST}):(?P<port>[0-9]{{1,5}})")


@lru_cache
def addresses_of(target: str) -> tuple[str, ...]:
    """Return the addresses of a target, at least one.

    Raises:
        InvalidRequest: an address is malformed or occurs twice. gRPC would fail later, with a long message.
    """
    addresses = tuple(address.strip() for address in target.split(","))
    for address in addresses:
        if is_socket(address):
            continue
        match = _ADDRESS.fullmatch(address)
        if match is None or not 1 <= int(match["port"]) <= 65_535:
            place = f" in {target!r}" if len(addresses) > 1 else ""
            raise InvalidRequest(
                "the target must be HOST:PORT, such as 127.0.0.1:50051, or dns:///NAME:PORT, or "
                f"unix:PATH, or several separated by commas, got {address!r}{place}"
            )
        if addresses.count(address) > 1:
            raise InvalidRequest(f"the target must name each address once, got {address} twice in {target!r}")
    return addresses


def is_name(address: str) -> bool:
    """Return whether an address begins with dns://, so that it may stand for several servers."""
    return address.startswith("dns://")


def is_socket(address: str) -> bool:
    """Return whether an address is a Unix socket of this machine."""
    return address.startswith("unix:") and len(address) > len("unix:")


def server_count(target: str) -> int:
    """Return the number of servers of a target. A DNS name counts as `ASSUMED_SERVERS_PER_NAME`."""
    return sum(ASSUMED_SERVERS_PER_NAME if is_name(address) else 1 for address in addresses_of(target))


def host_and_port(address: str) -> tuple[str, int]:
    """Return the host without brackets, and the port; for a DNS name, the name and the port."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    return host.strip("[]"), int(port)
