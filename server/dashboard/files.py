"""The files of the pages: HTML, scripts and styles, as they are in the package.

Owns their types, their caching and the policy that every page has. Must not know: what is in them, or who asks; no file
contains data. Invariants: a path names a file of the folder or nothing; no page runs a script or a style that is not such a
file; an address with a version has the same content for ever, so that a browser asks for it once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

import server.web
from server.problem import problem

STATIC = Path(server.web.__file__).with_name("static")
PREFIX = "/static"
SHELL = "index.html"
PAGES = ("/", "/executions", "/executions/{id}", "/agents", "/usage", "/sql", "/compare")
"""Paths of the one page; its script shows the part of the path."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
    ".woff2": "font/woff2",
}
PLAIN = "application/octet-stream"
VERSION = "v-"
"""What the first part of a path begins with, if it is the version of all files."""
FOR_PROGRAMS = ("/api/", "/mcp", "/health", "/metrics", "/.well-known/", f"{PREFIX}/")
"""What the paths begin with that no browser shows as a page."""
REVALIDATED, KEPT = "no-cache", "max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent."""

    content: bytes
    etag: str


class StaticFiles:
    """The files of a folder."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._known: dict[Path, tuple[int, StaticFile]] = {}
        self._version = ""
        self._tags: Mapping[Path, str] = {}
        """Of all files, when the version was made."""

    def routes(self) -> list[BaseRoute]:
        """The pages and what they load."""
        pages: list[BaseRoute] = [Route(path, self._page, methods=["GET"]) for path in PAGES]
        assets = Route(f"{PREFIX}/{{path:path}}", self._asset, methods=["GET"])
        return [*pages, assets, UnknownPage("/{path:path}", self._unknown, methods=["GET"])]

    async def _page(self, request: Request) -> Response:
        return _answer(request, await anyio.to_thread.run_sync(self._shell), TYPES[".html"])

    async def _unknown(self, _: Request) -> Response:
        """The page, which says that there is nothing."""
        page = await anyio.to_thread.run_sync(self._shell)
        if page is None:
            return _missing()
        headers = {"cache-control": "no-store", "content-security-policy": POLICY, "content-type": TYPES[".html"]}
        return Response(page.content, 404, headers)

    async def _asset(self, request: Request) -> Response:
        version, _, path = request.path_params["path"].partition("/")
        if not version.startswith(VERSION):
            version, path = "", request.path_params["path"]
        parts = path.split("/")
        if any(part in ("", ".", "..") or part.startswith(".") or "\\" in part or "\0" in part for part in parts):
            return _missing()
        file = self._folder.joinpath(*parts)
        found = await anyio.to_thread.run_sync(self._read, file)
        kept = found is not None and version == self._version and self._tags.get(file) == found.etag
        return _answer(request, found, TYPES.get(file.suffix, PLAIN), KEPT if kept else REVALIDATED)

    def _shell(self) -> StaticFile | None:
        """The page, which names its files at the version they have now."""
        page = self._read(self._folder / SHELL)
        if page is None:
            return None
        files = ((path, self._read(path)) for path in sorted(self._folder.rglob("*")))
        tags = {path: found.etag for path, found in files if found is not None}
        version = VERSION + hashlib.sha256("".join(tags.values()).encode()).hexdigest()[:16]
        self._version, self._tags = version, tags
        content = page.content.replace(f'"{PREFIX}/'.encode(), f'"{PREFIX}/{version}/'.encode())
        return StaticFile(content, f'"{version}"')

    def _read(self, path: Path) -> StaticFile | None:
        try:
            if not path.resolve().is_relative_to(self._folder.resolve()) or not path.is_file():
                return None
            changed = path.stat().st_mtime_ns
            known = self._known.get(path)
            if known is None or known[0] != changed:
                content = path.read_bytes()
                known = self._known[path] = changed, StaticFile(content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
        except OSError:
            return None
        return known[1]


def _answer(request: Request, found: StaticFile | None, kind: str, caching: str = REVALIDATED) -> Response:
    if found is None:
        return _missing()
    headers = {"etag": found.etag, "cache-control": caching, "content-security-policy": POLICY}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers={**headers, "content-type": kind})


class UnknownPage(Route):
    """Every path that a browser asks for as a page. Its place is behind all others."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return super().matches(scope) if wants_page(scope) else (Match.NONE, {})


def wants_page(scope: Scope) -> bool:
    """Whether a browser asks for something to show, where there is neither data nor a file."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    path: str = scope["path"]
    data = path.startswith(FOR_PROGRAMS) or path.endswith(".json")
    return not data and "text/html" in Headers(scope=scope).get("accept", "")


def is_file_path(path: str) -> bool:
    """Whether a path is that of a page or of a file that pages load."""
    if path.startswith(f"{PREFIX}/") or path in PAGES:
        return True
    return path.startswith("/executions/") and path.count("/") == 2 and not path.endswith(".json")


def _missing() -> Response:
    return problem(404, "there is nothing at this path", "the pages are at `/`")
