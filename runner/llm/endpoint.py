"""One endpoint of the Messages API: the wire for ordinary requests, the SDK for all others.

Owns the choice between the two, the SDK's client, and the errors of a request before its answer begins; they are the same
on both paths. The SDK is imported only where an endpoint needs it: behind a proxy, with other headers, in another version,
after a redirect.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from pydantic_core import from_json

from runner.llm.wire import CONNECT_SECONDS, KEEP_ALIVE_SECONDS, PATH, HttpAnswer, Wire, is_ordinary

if TYPE_CHECKING:
    import httpx2

ERROR_CAP = 65_536
"""Bytes read of an error's body."""
_TRANSPORTS = {"aiohttp": ("ClientError",), "httpx2": ("HTTPError", "StreamError")}
"""The base classes of the errors of each client."""


class Unreached(Exception):
    """A request without an answer: no connection, or one that ended before the headers."""


class StatusRefused(Exception):
    """An answer with an unsuccessful status; `body` is its JSON, or its text as far as it could be read."""

    def __init__(self, status: int, headers: Mapping[str, str], body: Any) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers, self.body = status, headers, body


class Unasked(Exception):
    """A request that the SDK did not send; the text names its error."""


class Endpoint:
    """The target of requests. Creating one imports a client, so it is done in a thread."""

    def __init__(self, base_url: str | None, key: str) -> None:
        self._base_url, self._key = base_url, key
        self._wire: Wire | None = None
        self._sdk: _Sdk | None = None
        if is_ordinary(base_url):
            self._wire = Wire(base_url, key)
        else:
            self._sdk = _Sdk(base_url, key)

    def use_key(self, key: str) -> None:
        """Use this key for later requests."""
        if key != self._key:
            self._key = key
            if self._wire is not None:
                self._wire.use_key(key)
            if self._sdk is not None:
                self._sdk.use_key(key)

    async def post(self, body: bytes) -> HttpAnswer:
        """Send a request; returns once the headers are there, with the content unread. Raises
        Unreached, StatusRefused, Unasked.
        """
        if self._wire is not None:
            try:
                answer = await self._wire.post(body)
            except transport_errors() as error:
                raise Unreached from error
            if answer.status < 300:
                return answer
            if answer.status >= 400:
                raise StatusRefused(answer.status, answer.headers, await _error_body(answer))
            await answer.aclose()  # a redirect
        made = await anyio.to_thread.run_sync(_Sdk, self._base_url, self._key) if self._sdk is None else None
        self._sdk = self._sdk or made  # another request may have made one meanwhile; nothing is open in this one
        assert self._sdk is not None
        return await self._sdk.post(body)

    async def close(self) -> None:
        if self._wire is not None:
            await self._wire.close()
        if self._sdk is not None:
            await self._sdk.close()


class _SdkAnswer:
    """An `HttpAnswer` of the SDK's client."""

    ended = False

    def __init__(self, response: httpx2.Response) -> None:
        self.headers: Mapping[str, str] = response.headers
        self.aiter_bytes, self.aclose = response.aiter_bytes, response.aclose


class _Sdk:
    """The SDK's client for an endpoint: it follows redirects and knows proxies."""

    def __init__(self, base_url: str | None, key: str) -> None:
        import anthropic
        import httpx2

        # 0 means no limit in this transport: concurrency is limited elsewhere.
        limits = httpx2.Limits(max_connections=0, keepalive_expiry=KEEP_ALIVE_SECONDS)
        http = anthropic.DefaultAioHttpClient(limits=limits)
        self._client = anthropic.AsyncAnthropic(api_key=key, base_url=base_url, http_client=http, max_retries=0)
        # No read timeout in the transport: the reader of the answer has its own.
        self._timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)

    def use_key(self, key: str) -> None:
        self._client.api_key = key

    async def post(self, body: bytes) -> HttpAnswer:
        """Send a request as `Endpoint.post` does."""
        import anthropic
        import httpx2

        try:
            response = await self._client.post(
                PATH,
                content=body,
                cast_to=httpx2.Response,
                stream=True,
                options={"timeout": self._timeout, "max_retries": 0},
            )
        except anthropic.APIStatusError as error:
            raise StatusRefused(error.status_code, error.response.headers, error.body) from error
        except anthropic.APIConnectionError as error:
            raise Unreached from error
        except anthropic.AnthropicError as error:
            raise Unasked(type(error).__name__) from error
        return _SdkAnswer(response)

    async def close(self) -> None:
        await self._client.close()


def transport_errors() -> tuple[type[Exception], ...]:
    """The errors of a connection. A client that was not imported cannot have raised one, and is not imported for it."""
    loaded = [(sys.modules[name], names) for name, names in _TRANSPORTS.items() if name in sys.modules]
    return (OSError, *(getattr(module, name) for module, names in loaded for name in names))


async def _error_body(answer: HttpAnswer) -> Any:
    data = b""
    try:
        async for chunk in answer.aiter_bytes():
            data += chunk
            if len(data) > ERROR_CAP:
                break
    except transport_errors():
        pass  # the part that was read still helps
    finally:
        await answer.aclose()
    with contextlib.suppress(ValueError):
        return from_json(data)
    return data.decode(errors="replace").strip()
