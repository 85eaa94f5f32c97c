"""One endpoint of the Messages API: the SDK's client for a URL and a key, with a fast path for later requests.

The SDK builds the first request. Its URL and headers are reused with each later body, through the SDK's own HTTP client,
because building a request costs more than sending it and reading the answer. Invariant: errors are the SDK's on both
paths.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

if TYPE_CHECKING:
    import anthropic
    import httpx2

CONNECT_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 60.0
"""Tools often take longer than the SDK's five seconds, after which a connection would need a new handshake."""
ERROR_CAP = 65_536
"""Bytes read of an error's body."""
_PER_REQUEST = ("content-length", "idempotency-key", "x-stainless-")
"""Prefixes of headers that belong to one request, or repeat facts about the SDK."""


class Endpoint:
    """The target of requests. Creating one imports the SDK, which takes more than a second; any thread may do it."""

    def __init__(self, base_url: str | None, key: str) -> None:
        import anthropic
        import httpx2

        # 0 means no limit in this transport: concurrency is limited elsewhere.
        limits = httpx2.Limits(max_connections=0, keepalive_expiry=KEEP_ALIVE_SECONDS)
        self._http = anthropic.DefaultAioHttpClient(limits=limits)
        self._client = anthropic.AsyncAnthropic(api_key=key, base_url=base_url, http_client=self._http, max_retries=0)
        # No read timeout in the transport: the reader of the answer has its own.
        self._timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)
        self._extensions = {"timeout": self._timeout.as_dict()}
        self._built: tuple[httpx2.URL, httpx2.Headers] | None = None

    def use_key(self, key: str) -> None:
        """Use this key for later requests."""
        if self._client.api_key != key:
            self._client.api_key = key
            self._built = None

    async def post(self, body: bytes) -> httpx2.Response:
        """Send a request; returns once the headers are there, with the content unread. Raises the SDK's errors."""
        import httpx2

        if self._built is None:
            return await self._build(body)
        url, headers = self._built
        request = httpx2.Request("POST", url, headers=headers, content=body, extensions=self._extensions)
        try:
            response = await self._http.send(request, stream=True)
        except (httpx2.HTTPError, OSError) as error:
            raise _unreached(error, request) from error
        if response.is_error:
            raise await _refused(response)
        return response

    async def close(self) -> None:
        await self._client.close()

    async def _build(self, body: bytes) -> httpx2.Response:
        """Let the SDK build the request, and keep its URL and headers."""
        import httpx2

        response = await self._client.post(
            "/v1/messages",
            content=body,
            cast_to=httpx2.Response,
            stream=True,
            options={"timeout": self._timeout, "max_retries": 0},
        )
        made = response.request
        headers = {name: value for name, value in made.headers.items() if not name.startswith(_PER_REQUEST)}
        self._built = made.url, httpx2.Headers(headers)
        return response


def _unreached(error: Exception, request: httpx2.Request) -> anthropic.APIConnectionError:
    import anthropic
    import httpx2

    if isinstance(error, httpx2.TimeoutException):
        return anthropic.APITimeoutError(request=request)
    return anthropic.APIConnectionError(request=request)


async def _refused(response: httpx2.Response) -> anthropic.APIStatusError:
    """The error for an unsuccessful status, with its body as far as it can be read, as JSON or text."""
    import anthropic
    import httpx2

    data = b""
    try:
        async for chunk in response.aiter_bytes():
            data += chunk
            if len(data) > ERROR_CAP:
                break
    except httpx2.HTTPError:
        pass  # the part that was read still helps
    finally:
        await response.aclose()
    body: Any = data.decode(errors="replace").strip()
    with contextlib.suppress(ValueError):
        body = from_json(data)
    return anthropic.APIStatusError(f"status {response.status_code}", response=response, body=body)
