"""HTTP as a transport of an MCP server: from an address on the command line to answers.

Owns the order: what could not be served safely is refused first, then the address is taken, and only then is anything
else opened. Must not know: what the server answers.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from mcp.server.lowlevel import Server

from registry import HttpSpec
from server.http.address import Address
from server.http.app import ENDPOINT, http_app, verifiers
from server.http.backing import Backing
from server.http.listening import bind, listen

Carry = Callable[[Server[Any]], Coroutine[Any, Any, None]]


def over_http(
    http: HttpSpec, address: Address, environ: Mapping[str, str], tell: Callable[[str], None], backing: Backing
) -> Carry:
    """What serves every client that may call, until it is cancelled. Raises HttpFault. `tell` hears the URL."""
    ways = verifiers(http, address, environ)
    listener, bound = bind(address)

    async def carry(server: Server[Any]) -> None:
        with listener:
            async with http_app(server, http, bound, ways, backing) as app:
                await listen(app, listener, lambda: tell(bound.url + ENDPOINT), backing.stopping)

    return carry
