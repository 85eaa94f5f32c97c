"""The error message of a provider that rejected a request or broke off an answer.

Owns the value that a failure carries into rows, events and logs, and how it is read from a body of any form. It knows
neither retries nor hints. Invariant: one line of at most 500 characters without a key, for people only: no prompt shows it,
because a body may hold anything.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from registry.specs.secrets import MASK

PROVIDER = "provider"
"""The key of a provider's error in a problem's context."""
LONGEST = 500
"""Maximum characters of a message."""
_READ = 20_000
"""Characters of a body that are read: error pages of proxies may be long."""

Hide = Callable[[str], str]
"""Replaces every secret that this process holds."""

_KEY = re.compile(r"(?<![A-Za-z0-9])(?:sk|pk|rk|key|AKIA|AIza)[-_A-Za-z0-9]{12,200}|(?<=Bearer )[^\s\"']{8,200}")
"""Strings that look like an API key."""
_WORD = re.compile(r"[A-Za-z0-9_.:/-]{1,100}")
_UNSEEN = {"<script": "</script", "<style": "</style", "<!--": "--"}
"""Parts of a page that a browser does not show, with their ends."""
_MARKUP = re.compile(r"(?i)<(?:!doctype|html|head|body|title|h1|p|div|center)\b")


@dataclass(frozen=True, slots=True)
class ProviderError:
    """The error of a provider; fields it did not send are empty."""

    message: str = ""
    type: str | None = None
    status: int | None = None
    request_id: str | None = None

    def __bool__(self) -> bool:
        """Whether any field is set."""
        return bool(self.message or self.type or self.status or self.request_id)

    @property
    def shown(self) -> dict[str, Any]:
        """The set fields, for rows, events and programs."""
        names = ("status", "type", "message", "request_id")
        return {name: value for name in names if (value := getattr(self, name)) not in (None, "")}


def provider_error(
    status: int | None, headers: Mapping[str, str], body: object, hide: Hide = lambda text: text
) -> ProviderError:
    """Read a provider's error: `body` is JSON, the text sent instead, or None."""
    type_, message, request_id = _fields(body)
    request_id = headers.get("request-id") or headers.get("x-request-id") or request_id
    return ProviderError(plain(message, hide), _word(type_), status, _word(request_id))


def plain(message: str, hide: Hide = lambda text: text) -> str:
    """A message as one short line without mark-up, control characters and keys."""
    text = message[:_READ]
    if _MARKUP.search(text):
        text = html.unescape(_seen(text))
    text = "".join(each if each.isprintable() else " " for each in text)
    # Secrets go first: cut in the middle, one would not be recognised.
    text = _KEY.sub(MASK, hide(" ".join(text.split())))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _seen(page: str) -> str:
    """The text of a page without its tags. One pass: a hostile page costs no more than its length."""
    lower, parts, at = page.lower(), [], 0
    while (start := page.find("<", at)) >= 0:
        parts.append(page[at:start])
        closing = next((end for begin, end in _UNSEEN.items() if lower.startswith(begin, start)), "")
        inside = lower.find(closing, start + 1) if closing else start
        end = page.find(">", inside) if inside >= 0 else -1
        if end < 0:
            return " ".join(parts)
        at = end + 1
    return " ".join([*parts, page[at:]])


def in_words(said: object) -> str:
    """A stored provider error, for people; empty if there is none."""
    if not isinstance(said, Mapping) or not (message := said.get("message")):
        return ""
    request = said.get("request_id")
    return f"{message} (request {request})" if request else str(message)


def _fields(body: object) -> tuple[object, str, object]:
    """Error type, message and request id of a body, in the forms that providers, gateways and proxies use."""
    if isinstance(body, str):
        return None, body, None
    if not isinstance(body, Mapping):
        return None, "", None
    found: Any = body.get("error")
    if isinstance(found, Mapping):
        message = found.get("message") or found.get("detail") or ""
        return found.get("type") or found.get("code"), str(message), body.get("request_id")
    told = found or body.get("message") or body.get("detail") or ""
    return body.get("type") if body.get("type") != "error" else None, str(told), body.get("request_id")


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None
