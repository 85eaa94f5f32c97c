"""What the three servers have in common as MCP servers.

Owns the annotations, the way they run and the one mapping from our errors to tool errors. Knows nothing of what they serve.
Invariant: an error a caller can act on reaches it word for word, with its hint.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from outrider_sre.errors import SreError

READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
"""A recording cannot be changed, so every call may be repeated."""

LOG_LEVEL: Final = "WARNING"
"""A refused question is an answer to its caller, not a log line for the terminal."""


@contextmanager
def explained() -> Iterator[None]:
    """Turn our errors into tool errors that keep message and hint."""
    try:
        yield
    except SreError as error:
        raise ToolError(f"{error.message}\nhint: {error.hint}") from error


def limited(asked: int, highest: int) -> int:
    """A limit inside what one answer may hold."""
    return max(1, min(asked, highest))


def serve(server: MCPServer) -> None:
    """Serve over stdio until the client disconnects."""
    atexit.register(gc.freeze)  # else the process ends with a garbage collection over the whole SDK
    server.run()
