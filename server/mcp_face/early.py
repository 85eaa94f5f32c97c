"""The first answers over stdio: given at once, while the SDK and the database layer are still being imported.

A host starts the server, sends `initialize` or `server/discover`, then `tools/list`, and shows nothing before it has both
answers. Importing the SDK takes longer than everything they need.

Owns which requests are answered here. Must not know: streams, the SDK. Invariants: an early answer is, byte for byte, the
one the SDK would give; whatever is not certainly so is left to the SDK, in the order it came. Only the opening request
leaves a state in the SDK: the era of the connection, and the abilities of the client. So it is also replayed, under an id
of our own, and the SDK's answer to that id is withheld. All others answered here leave no state.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from server.identity import LOCAL
from server.mcp_face.introduction import MODERN_VERSION, UNCHANGED_MS, discovery, greeting, shows_apps, stamp
from server.service import Service

OPENING = f"outrider-{os.urandom(8).hex()}"
"""The id of the replayed opening request. It is random, so that no request of a client has it."""

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"

LONGEST = 65_536
"""Bytes of a message that is looked at: the first requests of hosts have some hundred."""
DEEPEST = 8
"""Objects within objects; the SDK's parser refuses very deep ones."""
LARGEST_ID = 2**53

Message = Mapping[str, Any]


class EarlyAnswers:
    """The answers to the first requests of one client."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._era: str | None = None
        """`legacy` or `modern` once the opening request was answered here."""
        self._has_apps = False
        """Whether a client of the older era shows views; in the newer one each request says it."""
        self._is_over = False
        """Whether everything is left to the SDK, because it has to answer the opening request."""

    def answer(self, line: bytes) -> tuple[bytes | None, bytes | None]:
        """The answer to a message, and the line that the SDK still has to read; each may be None."""
        message = _plain(line)
        if self._is_over:
            return None, line
        if self._era is None:
            return self._open(message, line)
        return (None, line) if (answer := self._answer(message)) is None else (answer, None)

    def answer_kept(self, lines: Sequence[bytes]) -> tuple[int, bytes] | None:
        """Which of the lines kept for the SDK can be answered by now, and the answer. Not one that was cancelled."""
        if self._is_over or self._era is None:
            return None
        messages = [_plain(line) for line in lines]
        cancelled = [_cancelled(message) for message in messages if message is not None]
        for number, message in enumerate(messages):
            if message is not None and message.get("id") not in cancelled:
                answer = self._answer(message)
                if answer is not None:
                    return number, answer
        return None

    def _open(self, message: Message | None, line: bytes) -> tuple[bytes | None, bytes | None]:
        """The first request decides the era; notifications before it do not."""
        if message is not None and "id" not in message:
            return None, line
        if message is not None and message["method"] == "initialize" and _introduces(message.get("params")):
            self._era = "legacy"
            self._has_apps = shows_apps(message["params"]["capabilities"].get("extensions"))
            return _line(message, greeting(message["params"]["protocolVersion"])), _replayed(message)
        if message is not None and message["method"] == "server/discover" and _is_enveloped(message):
            self._era = "modern"
            return _line(message, discovery()), _replayed(message)
        self._is_over = True
        return None, line

    def _answer(self, message: Message | None) -> bytes | None:
        if message is None or message.get("id", OPENING) == OPENING:  # a notification, or the replayed request
            return None
        if not (_is_enveloped(message) if self._era == "modern" else _is_bare(message)):
            return None
        match message["method"], self._era:
            case "ping", "legacy":
                return _line(message, {})
            case "server/discover", "modern":
                return _line(message, discovery())
            case "tools/list", _:
                return self._tools(message)
        return None

    def _tools(self, message: Message) -> bytes | None:
        settings = self._service.loaded
        if settings is None:
            return None
        from server.mcp_face.tools import listed  # late: imported together with the settings

        if self._era == "legacy":
            tools = listed(settings, LOCAL, has_apps=self._has_apps)
            return _line(message, {"tools": [_in_order(tool, "properties", "required", "type") for tool in tools]})
        given = message["params"]["_meta"][CAPABILITIES_KEY]
        tools = listed(settings, LOCAL, has_apps=shows_apps(given.get("extensions")))
        shown = [_in_order(tool, "type") for tool in tools]
        envelope = {"cacheScope": "private", "resultType": "complete", "tools": shown, "ttlMs": UNCHANGED_MS}
        return _line(message, {**envelope, "_meta": stamp()})


def _plain(line: bytes) -> Message | None:
    """A request or notification without any oddity that parsers might read differently; None for all else."""
    if len(line) > LONGEST or b"\\u" in line:
        return None
    try:
        message = json.loads(line.decode(), parse_constant=_refuse, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not message.keys() <= _KEYS:
        return None
    identifier = message.get("id", "")
    is_whole = isinstance(identifier, int) and not isinstance(identifier, bool) and abs(identifier) < LARGEST_ID
    if not (is_whole or isinstance(identifier, str)) or not isinstance(message.get("method"), str):
        return None
    return message if isinstance(message.get("params", {}), dict) and _depth(message) <= DEEPEST else None


_KEYS = frozenset({"jsonrpc", "id", "method", "params"})


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key appears twice")
    return found


def _depth(value: Any) -> int:
    inner: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def _introduces(params: Any) -> bool:
    """Whether these are the parameters of `initialize` as every version defines them."""
    if not isinstance(params, dict) or not params.keys() <= {"protocolVersion", "capabilities", "clientInfo"}:
        return False
    is_known = isinstance(params.get("protocolVersion"), str) and _is_client(params.get("clientInfo"))
    return is_known and _are_capabilities(params.get("capabilities"))


def _is_client(info: Any) -> bool:
    if not isinstance(info, dict) or not info.keys() <= {"name", "version", "title", "description", "websiteUrl"}:
        return False
    return {"name", "version"} <= info.keys() and all(isinstance(value, str) for value in info.values())


def _are_capabilities(given: Any) -> bool:
    """Whether these are capabilities that the protocol knows, with the types it gives them."""
    if not isinstance(given, dict):
        return False
    for name, value in given.items():
        if name == "roots" and isinstance(value, dict):
            if not value.keys() <= {"listChanged"} or not all(isinstance(each, bool) for each in value.values()):
                return False
        elif name in ("experimental", "extensions") and isinstance(value, dict):
            if not all(isinstance(each, dict) for each in value.values()):
                return False
        elif name not in ("sampling", "elicitation", "tasks") or not _is_nested(value):
            return False
    return True


def _is_nested(value: Any) -> bool:
    """Objects of objects, as the protocol declares features."""
    return isinstance(value, dict) and all(map(_is_nested, value.values()))


def _is_bare(message: Message) -> bool:
    """Whether a request of the older era has no parameters but perhaps a progress token."""
    params: Message = message.get("params", {})
    meta = params.get("_meta", {})
    if not params.keys() <= {"_meta"} or not isinstance(meta, dict) or not meta.keys() <= {"progressToken"}:
        return False
    return _is_token(meta.get("progressToken", ""))


def _is_enveloped(message: Message) -> bool:
    """Whether a request of the newer era has no parameters but its envelope."""
    params: Message = message.get("params", {})
    meta = params.get("_meta")
    if not params.keys() <= {"_meta"} or not isinstance(meta, dict):
        return False
    if not meta.keys() <= {VERSION_KEY, CAPABILITIES_KEY, CLIENT_KEY, "progressToken"}:
        return False
    if meta.get(VERSION_KEY) != MODERN_VERSION or not _are_capabilities(meta.get(CAPABILITIES_KEY)):
        return False
    return (CLIENT_KEY not in meta or _is_client(meta[CLIENT_KEY])) and _is_token(meta.get("progressToken", ""))


def _is_token(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _cancelled(message: Message) -> Any:
    """The id of the request that a notification cancels."""
    if message["method"] != "notifications/cancelled":
        return None
    return message.get("params", {}).get("requestId")


def _in_order(tool: Message, *first: str) -> Message:
    """A tool with its fields in the order of the SDK's types; `first` are those of its input schema."""
    given, answer = tool["inputSchema"], tool["outputSchema"]
    return {
        **({"_meta": tool["_meta"]} if "_meta" in tool else {}),
        "annotations": tool["annotations"],
        "description": tool["description"],
        "inputSchema": _begun(given, first),
        "name": tool["name"],
        "outputSchema": _begun(answer, first) if len(first) > 1 else answer,
        "title": tool["title"],
    }


def _begun(schema: Message, first: Sequence[str]) -> Message:
    return {**{name: schema[name] for name in first if name in schema}, **schema}


def _replayed(message: Message) -> bytes:
    return json.dumps({**message, "id": OPENING}).encode()


def _line(message: Message, result: Message) -> bytes:
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
