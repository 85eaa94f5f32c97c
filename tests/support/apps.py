"""What a client of MCP Apps declares, for tests.

Owns the identifier and the settings of the extension as the protocol writes them, apart from ours. Must not know: the face.
"""

from typing import Any

from mcp.client.extension import ClientExtension, advertise

IDENTIFIER = "io.modelcontextprotocol/ui"
HTML = "text/html;profile=mcp-app"
DECLARED: dict[str, Any] = {"extensions": {IDENTIFIER: {"mimeTypes": [HTML]}}}
"""The capabilities of a client that shows views."""


def apps(*types: str) -> ClientExtension:
    """An extension of the SDK's client that declares these MIME types; by default that of views."""
    return advertise(IDENTIFIER, {"mimeTypes": list(types or (HTML,))})
