"""Serves the files of the page, with content types, digests for caches, and a strict security policy."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from aiohttp import web
from octofold_game.drawing.viewer import viewer_files

INDEX = "index.html"
VIEWER = "viewer/"
"""The folder, in URLs, of the files that the page shares with HTML reports."""

CONTENT_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
"""Content types by the suffix of a file. Files with other suffixes are not served."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
"""The security policy of the page. It forbids inline code, `eval`, other hosts, frames around the page, and
assigning text as HTML."""

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",  # the URL of a page may contain a board
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class File:
    """A file of the page."""

    content: bytes
    content_type: str
    tag: str
    """The digest of the file, which is its entity tag. A cache that has this tag needs no new copy."""


class PageFiles:
    """The files of the page and of the viewer, in memory. They take a few hundred kilobytes."""

    def __init__(self) -> None:
        self._files = dict(_read(files(__package__) / "static", ""))
        for name, text in viewer_files().items():
            self._files[VIEWER + name] = _file(text.encode(), CONTENT_TYPES[name[name.rfind(".") :]])

    def reply(self, name: str, request: web.Request) -> web.Response:
        """Return a reply with a file, or with an empty body if the client already has the file.

        Raises:
            web.HTTPNotFound: the page does not have the file.
        """
        file = self._files.get(name)
        if file is None:
            raise web.HTTPNotFound(reason="the page does not have this file")
        # With "no-cache", a browser asks before it uses a copy, so files of two versions are never mixed.
        headers = {**SECURITY_HEADERS, "Cache-Control": "no-cache", "ETag": f'"{file.tag}"'}
        if any(tag.value in (file.tag, "*") for tag in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(
            body=file.content, content_type=file.content_type, charset="utf-8", headers=headers
        )


def _read(folder: Traversable, prefix: str) -> list[tuple[str, File]]:
    contents = []
    for entry in folder.iterdir():
        suffix = entry.name[entry.name.rfind(".") :]
        if entry.is_dir():
            contents += _read(entry, f"{prefix}{entry.name}/")
        elif suffix in CONTENT_TYPES:
            contents.append((prefix + entry.name, _file(entry.read_bytes(), CONTENT_TYPES[suffix])))
    return contents


def _file(content: bytes, content_type: str) -> File:
    return File(content, content_type, hashlib.sha256(content).hexdigest()[:32])
