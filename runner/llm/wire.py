"""The wire: requests to an ordinary endpoint, sent over one aiohttp session byte for byte as the SDK sends them.

The SDK knows how a request looks. Importing it takes most of a second and 45 MB, and its client costs more than the
exchange itself. So the headers of one version of it are recorded here, for the common case: a key, an HTTP address, no
proxy. Every other request goes through the SDK (`runner/llm/endpoint.py`), and so does each of them while another version
of it is installed. Invariant: a request has the same bytes on both paths; a test compares them.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import SplitResult, urlsplit

if TYPE_CHECKING:
    import aiohttp

PATH = "/v1/messages"
DEFAULT_URL = "https://api.anthropic.com"
CONNECT_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 60.0
"""Tools often take longer than the SDK's five seconds, after which a connection would need a new handshake."""

SDK_VERSION = "2.8.0"
"""The version of the SDK whose headers are recorded."""
API_VERSION = "2026-10-21"
_PORTS = {"http": 80, "https": 443}
_SYSTEMS = {"linux": "Linux", "darwin": "MacOS", "windows": "Windows"}
_MACHINES = {"x86_64": "x64", "amd64": "other:amd64", "arm64": "arm64", "aarch64": "arm64"}
"""The SDK's names of systems and machines."""


class HttpAnswer(Protocol):
    """An answer whose headers have arrived."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def ended(self) -> bool:
        """Whether its content has been read to the end, as far as that is known."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The content as it arrives, decompressed."""
        ...

    async def aclose(self) -> None:
        """Return the connection to the pool if the content was read to its end, else close it."""
        ...


class WireAnswer:
    """An `HttpAnswer` of the session."""

    __slots__ = ("_response",)

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    @property
    def ended(self) -> bool:
        return self._response.content.at_eof()

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        return self._response.content.iter_any()

    async def aclose(self) -> None:
        if self.ended:
            self._response.release()
        else:
            self._response.close()


class Wire:
    """The session of one endpoint. Made in any thread, because it imports aiohttp; used in the event loop."""

    def __init__(self, base_url: str | None, key: str) -> None:
        import aiohttp

        self._url, self._key = f"{(base_url or DEFAULT_URL).rstrip('/')}{PATH}", key
        self._names = urlsplit(self._url)
        self._tls: Any = True
        if self._names.scheme == "https":
            import httpx2

            self._tls = httpx2.create_ssl_context()  # trusts the same authorities as the SDK
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        self._session: aiohttp.ClientSession | None = None

    def use_key(self, key: str) -> None:
        """Use this key for later requests."""
        self._key = key
        if self._session is not None:
            self._session.headers.update(recorded_headers(self._names, key))

    async def post(self, body: bytes) -> WireAnswer:
        """Send a request; returns once the headers are there. Raises the errors of aiohttp."""
        session = self._session or self._open()
        length = {"content-length": str(len(body))}  # replaces the session's, in its place
        return WireAnswer(await session.post(self._url, data=body, headers=length, allow_redirects=False))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        # 0 means no limit: concurrency is limited elsewhere.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS, ssl=self._tls)
        headers = list(recorded_headers(self._names, self._key))
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, timeout=self._timeout)
        return self._session


def is_ordinary(base_url: str | None) -> bool:
    """Whether the recorded headers are those that the installed SDK would send here."""
    names = urlsplit(base_url or DEFAULT_URL)
    simple = names.scheme in _PORTS and bool(names.hostname) and names.netloc.isascii() and "@" not in names.netloc
    if not simple or names.query or names.fragment or "%" in names.netloc or "ANTHROPIC_CUSTOM_HEADERS" in os.environ:
        return False
    known = platform.system().lower() in _SYSTEMS and platform.machine().lower() in _MACHINES
    return known and not hasattr(sys, "getandroidapilevel") and _installed() == SDK_VERSION and not _has_proxy(names)


def recorded_headers(address: SplitResult, key: str) -> Iterator[tuple[str, str]]:
    """The headers of a request, in the SDK's order and spelling; the last one is set for each body."""
    port = address.port if address.port != _PORTS[address.scheme] else None
    host = f"[{address.hostname}]" if ":" in (address.hostname or "") else address.hostname
    yield "host", f"{host}:{port}" if port is not None else f"{host}"
    yield "accept-encoding", "gzip, deflate"
    yield "connection", "keep-alive"
    yield "x-stainless-timeout", "None"
    yield "x-stainless-retry-count", "0"
    yield "accept", "application/json"
    yield "content-type", "application/json"
    yield "user-agent", f"AsyncAnthropic/Python {SDK_VERSION}"
    yield "x-stainless-lang", "python"
    yield "x-stainless-package-version", SDK_VERSION
    yield "x-stainless-os", _SYSTEMS[platform.system().lower()]
    yield "x-stainless-arch", _MACHINES[platform.machine().lower()]
    yield "x-stainless-runtime", platform.python_implementation()
    yield "x-stainless-runtime-version", platform.python_version()
    yield "authorization", f"Bearer {key}"
    yield "x-stainless-async", "async:asyncio"
    yield "anthropic-version", API_VERSION
    yield "content-length", "0"


def _installed() -> str:
    try:
        return metadata.version("anthropic")
    except metadata.PackageNotFoundError:
        return ""


def _has_proxy(names: SplitResult) -> bool:
    """Whether the settings of the environment or the system lead this address through a proxy."""
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    return bool(proxies.get(names.scheme) or proxies.get("all")) and not proxy_bypass(names.netloc)
