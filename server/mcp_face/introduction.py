"""The server introduces itself: names, instructions for a client's model, protocol versions and capabilities.

Owns the answers to `initialize` and `server/discover` as plain data. The SDK makes the same answers from its registered
handlers; here they exist before it is imported. A test compares the two, so an upgrade of the SDK that changes them fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

NAME, TITLE = "outrider", "Outrider"
DESCRIPTION = "Dispatch agents, watch them work, collect their results."
VERSION = version(NAME)
"""Read at once: for an answer it would be read while a thread imports the modules that this needs, and wait for them."""

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The versions of the older era. A client that asks for another one is offered the last."""
MODERN_VERSION = "2026-07-28"

TASKS = "io.modelcontextprotocol/tasks"
"""The extension of `server/mcp_face/tasks.py`."""
APPS = "io.modelcontextprotocol/ui"
"""The extension of `server/mcp_face/app_tools.py`."""
APP_TYPE = "text/html;profile=mcp-app"
"""The MIME type of a view, as clients declare it and as it is served."""
TREE_VIEW = "ui://outrider/tree"
UNCHANGED_MS = 60_000
"""How long a client of the newer era may keep a list."""

INSTRUCTIONS = """\
Outrider runs agents for you in the background. Each dispatched agent is an execution with an id.

When to dispatch: for work that needs tools or knowledge an agent has and you have not, that takes long, or that splits into
independent parts. Give every fact the agent needs in `task`: it sees nothing of this conversation. Dispatch what is
independent at once, one call each, before you wait for any of it.

How to wait: `dispatch_agent` and `run_chain` answer at once with an execution_id, never with a result. Then call `wait_for`
with all ids (mode `any` to work on what is there, `all` for everything) or `get_result` with one. An answer `running` is
normal: ask again after `retry_after_seconds`, or go on with something else. A call never waits longer than 50 seconds; the
execution goes on all the same, also when this conversation ends.

Never guess or invent a result. Until an execution has ended you do not have one; say so if you are asked. A result may be
`partial`, `failed`, `timed_out` or `cancelled`: report that, and what was found.

An answer with `waiting_for: approval` means that your user must decide whether a call of an agent may run. You cannot
decide: tell the user which execution waits, and for which call with which arguments, and go on waiting.

Steer a running agent with `send_message`, stop one with `cancel_agent` (mode `wrap_up` lets it answer with what it has).
Long results are cut; `read_result` reads on. `get_execution_tree` shows who did what and what it cost;
`list_executions` has earlier executions, too. The last six characters of an id will do.
"""

Answer = Mapping[str, Any]


def greeting(wanted: str) -> Answer:
    """The answer to `initialize`."""
    return {
        "capabilities": _capabilities(changes=False),
        "instructions": INSTRUCTIONS,
        "protocolVersion": wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
        "serverInfo": {"description": DESCRIPTION, "name": NAME, "title": TITLE, "version": VERSION},
    }


def discovery() -> Answer:
    """The answer to `server/discover`."""
    return {
        "cacheScope": "private",
        "capabilities": _capabilities(changes=True),
        "instructions": INSTRUCTIONS,
        "resultType": "complete",
        "supportedVersions": [MODERN_VERSION],
        "ttlMs": 0,
        "_meta": stamp(),
    }


def shows_apps(extensions: Any) -> bool:
    """Whether a client that declared these extensions shows views of our type."""
    settings = extensions.get(APPS) if isinstance(extensions, Mapping) else None
    types = settings.get("mimeTypes") if isinstance(settings, Mapping) else None
    return isinstance(types, list | tuple) and APP_TYPE in types


def stamp() -> Answer:
    """The `_meta` of every answer of the newer era."""
    about = {"name": NAME, "title": TITLE, "version": VERSION, "description": DESCRIPTION}
    return {"io.modelcontextprotocol/serverInfo": about}


def _capabilities(*, changes: bool) -> Answer:
    """`changes`: whether lists may change, which clients of the newer era can subscribe to."""
    extensions: Answer = {"extensions": {APPS: {}, TASKS: {}}} if changes else {}
    return {
        "completions": {},
        **extensions,
        "prompts": {"listChanged": changes},
        "resources": {"listChanged": changes, "subscribe": True},
        "tools": {"listChanged": changes},
    }
