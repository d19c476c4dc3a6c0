"""Refuses HTTP requests with contradictory headers, from pages of other sites, or without a valid token.

A browser sends requests of any page to any server that it can reach, including servers on loopback. It hides
the reply from the page, but the request still takes effect.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from aiohttp import web
from octofold_proto.errors import InvalidRequest, NotAllowed

from octofold_server.admission.access import Access, Right
from octofold_server.admission.admission import code_name
from octofold_server.admission.refusals import Refusals
from octofold_server.http_transport.calls import Route
from octofold_server.system.quoting import quoted

SINGLE_HEADERS = ("Authorization", "Content-Encoding", "Host", "Origin", "Sec-Fetch-Site")
"""Headers on which the meaning of a request depends. If a header had two values, a proxy might check one of
them, and the server might use the other."""

OWN_PAGES = ("same-origin", "none")
"""The values of `Sec-Fetch-Site` if the server's own page sends a request, or if a user opens an address."""


class Guard:
    """Checks the headers of requests.

    Pages of other sites may request probes and the files of the server's page, which need no right. Browsers
    describe the origin of a request in headers that pages cannot forge and that other programs do not send.

    Args:
        routes: all routes; requests for other paths are not checked.
        access: checks tokens.
        refusals: counts the refused requests.
        single_headers: headers that, like `SINGLE_HEADERS`, may have only one value in a request.
        only_loopback: whether requests must name localhost or a loopback address as their host. This prevents
            DNS rebinding, in which the name of another site resolves to 127.0.0.1.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        access: Access,
        refusals: Refusals,
        single_headers: Iterable[str],
        *,
        only_loopback: bool,
    ) -> None:
        self._rights = {route.handler: route.right for route in routes}
        self._access = None if access.open else access
        self._refusals = refusals
        self._single_headers = (*SINGLE_HEADERS, *single_headers)
        self._only_loopback = only_loopback

    def check(self, request: web.Request) -> None:
        """Check the headers of a request.

        Raises:
            InvalidRequest: a header that may have only one value has several.
            NotAllowed: the request comes from a page of another site, or names a host that `only_loopback`
                forbids; or as in `Access.check`.
            Unauthenticated: as in `Access.check`.
        """
        if request.match_info.http_exception is not None:
            return  # no route matches, so the reply is 404 or 405
        right = self._rights[request.match_info.handler]
        headers = request.headers
        try:
            for name in self._single_headers:
                if len(set(headers.getall(name, ()))) > 1:
                    raise InvalidRequest(f"the header {name} must have one value, got several")
            if right is not Right.NOTHING:
                self._check_site(request.method, headers)
        except (InvalidRequest, NotAllowed) as error:
            self._refusals.add(code_name(error))
            raise
        if self._access is not None:
            self._access.check(headers.get("Authorization"), right)

    def _check_site(self, method: str, headers: Mapping[str, str]) -> None:
        host = headers.get("Host")
        if self._only_loopback and host is not None and not is_loopback_host(host):
            raise NotAllowed(
                "a server on loopback with neither --tokens nor TLS accepts only requests for the host "
                f"localhost or 127.0.0.1, got {quoted(host)}; a proxy must set the header Host to one of them"
            )
        # Other sites may link to the server, but not embed it: a page could contain hundreds of frames, each
        # with a long search.
        fills_window = headers.get("Sec-Fetch-Dest", "document") == "document"
        if method == "GET" and headers.get("Sec-Fetch-Mode") == "navigate" and fills_window:
            return  # a user follows a link
        site, origin = headers.get("Sec-Fetch-Site"), headers.get("Origin")
        # Browsers send `Sec-Fetch-Site` only to servers with TLS or on loopback.
        is_foreign = (
            site not in OWN_PAGES if site is not None else origin is not None and _host(origin) != host
        )
        if is_foreign:
            raise NotAllowed(f"requests from pages of other sites are refused: {quoted(origin or str(site))}")


def is_loopback_host(host: str) -> bool:
    """Return whether the value of a `Host` header is localhost or a loopback address, with any port."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        address = None if name == "localhost" else ipaddress.ip_address(name)
        mapped = getattr(address, "ipv4_mapped", None)  # ::ffff:127.0.0.1, from clients that know only IPv6
        return address is None or (mapped or address).is_loopback
    except ValueError:
        return False


def _host(origin: str) -> str:
    """Return the host and the port of an origin; empty for an origin without a host, such as "null"."""
    return origin.partition("://")[2]
