"""Parses one JSON-RPC message from the wire, or refuses it.

Owns the rules for a valid message, the same on every transport. Must not know: transports, methods. Invariant: a refusal
repeats only the id; an accepted message is plain JSON without NaN or lone surrogates, and its id can be answered.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import mcp_types as t
from pydantic import ValidationError
from pydantic_core import from_json

_IDENTIFIER = rb'"id"\s*:\s*(?:(?P<number>-?\d{1,15})|"(?P<text>[^"\\]{1,200})")\s*'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _IDENTIFIER + rb",")
_LAST = re.compile(rb",\s*" + _IDENTIFIER + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z")
_END = 400
"""Bytes at the end that are searched for an id."""


class NotAMessage(Exception):
    """The data is not a valid message; `refusal` is the answer to its sender."""

    def __init__(self, code: int, reason: str, identifier: int | str | None = None) -> None:
        super().__init__(reason)
        self.refusal = t.JSONRPCError(jsonrpc="2.0", id=identifier, error=t.ErrorData(code=code, message=reason))


def message_of(data: bytes) -> t.JSONRPCMessage:
    """Parse and validate `data`; raises NotAMessage."""
    try:
        content = from_json(data, allow_inf_nan=False)
    except ValueError:
        raise NotAMessage(t.PARSE_ERROR, "the message is not JSON", id_at_ends(data)) from None
    try:
        message = t.jsonrpc_message_adapter.validate_python(content, by_name=False)
    except ValidationError:
        raise NotAMessage(t.INVALID_REQUEST, "this is not a JSON-RPC message", _id_in(content)) from None
    if isinstance(message, t.JSONRPCNotification) and "id" in content:
        # The sender waits for an answer, which a notification never gets.
        raise NotAMessage(t.INVALID_REQUEST, "the `id` of a request is a text or a whole number")
    return message


def too_long(ends: bytes, cap: int) -> NoReturn:
    """Refuse a message of which only the two ends were kept; raises NotAMessage."""
    raise NotAMessage(t.INVALID_REQUEST, f"the message is longer than {cap // 1024**2} MB", id_at_ends(ends))


def _id_in(content: Any) -> int | str | None:
    identifier = content.get("id") if isinstance(content, dict) else None
    return identifier if isinstance(identifier, int | str) and not isinstance(identifier, bool) else None


def id_at_ends(data: bytes) -> int | str | None:
    """The id of an unreadable message, searched only at its ends, where clients write it; elsewhere it may be data."""
    found = _FIRST.match(data) or _LAST.search(data[-_END:])
    if found is None:
        return None
    return int(found["number"]) if found["number"] else found["text"].decode("utf-8", "replace")
