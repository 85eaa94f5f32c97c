"""One endpoint of the Messages API: the SDK's client for an address and a key, and the shortest way through it.

Owns the client and what it sends with every request. The SDK builds the first request; what it made of it, the address and
the headers, is sent again with each later body by the SDK's own HTTP client, because building a request anew costs more
than sending it and reading the answer. Invariant: errors are the SDK's, whichever way a request went.
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
"""Tools often take longer than the five seconds after which the SDK would close a connection and need a new handshake."""
ERROR_CAP = 65_536
"""Bytes of the body of an error that are read."""
_TOLD_ONCE = ("content-length", "idempotency-key", "x-stainless-")
"""Beginnings of headers that belong to one request, or tell of the SDK what the first request told already."""


class Endpoint:
    """Where requests go. Making one imports the SDK, which takes more than a second; it may be made in any thread."""

    def __init__(self, base_url: str | None, key: str) -> None:
        import anthropic
        import httpx2

        # For this transport 0 is no limit: how many agents may talk at once is not decided here.
        limits = httpx2.Limits(max_connections=0, keepalive_expiry=KEEP_ALIVE_SECONDS)
        self._http = anthropic.DefaultAioHttpClient(limits=limits)
        self._client = anthropic.AsyncAnthropic(api_key=key, base_url=base_url, http_client=self._http, max_retries=0)
        # The transport has no timeout for silence: those are about answers, and kept by whoever reads one.
        self._timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)
        self._extensions = {"timeout": self._timeout.as_dict()}
        self._built: tuple[httpx2.URL, httpx2.Headers] | None = None

    def use_key(self, key: str) -> None:
        """Send this key from now on."""
        if self._client.api_key != key:
            self._client.api_key = key
            self._built = None

    async def post(self, body: bytes) -> httpx2.Response:
        """Send a request; the answer's headers are there, its content is still to be read. Raises the SDK's errors."""
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
        """Close every connection."""
        await self._client.close()

    async def _build(self, body: bytes) -> httpx2.Response:
        """Let the SDK make the request, and keep what does not belong to this body."""
        import httpx2

        response = await self._client.post(
            "/v1/messages",
            content=body,
            cast_to=httpx2.Response,
            stream=True,
            options={"timeout": self._timeout, "max_retries": 0},
        )
        made = response.request
        headers = {name: value for name, value in made.headers.items() if not name.startswith(_TOLD_ONCE)}
        self._built = made.url, httpx2.Headers(headers)
        return response


def _unreached(error: Exception, request: httpx2.Request) -> anthropic.APIConnectionError:
    import anthropic
    import httpx2

    if isinstance(error, httpx2.TimeoutException):
        return anthropic.APITimeoutError(request=request)
    return anthropic.APIConnectionError(request=request)


async def _refused(response: httpx2.Response) -> anthropic.APIStatusError:
    """The error of an answer that is none, with its body as far as it can be read: JSON, or the text that it is."""
    import anthropic
    import httpx2

    data = b""
    try:
        async for chunk in response.aiter_bytes():
            data += chunk
            if len(data) > ERROR_CAP:
                break
    except httpx2.HTTPError:
        pass  # what was read of it still says something
    finally:
        await response.aclose()
    body: Any = data.decode(errors="replace").strip()
    with contextlib.suppress(ValueError):
        body = from_json(data)
    return anthropic.APIStatusError(f"status {response.status_code}", response=response, body=body)
