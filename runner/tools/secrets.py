"""Masking: no secret of this process reaches a model or a row, in any spelling that a tool returns.

Owns the spellings and the replacement; the registry says which values are secrets. It does not guess at other secrets.
Invariant: the cost is linear in the text, whatever its content; there is no backtracking pattern.
"""

from __future__ import annotations

import json
import logging
import re
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from itertools import accumulate, pairwise
from typing import Any
from urllib.parse import quote, quote_plus

import anyio.lowlevel

from registry.specs.secrets import MASK, SHORTEST
from runner.tools.protocol import ToolResult

_LONG_TEXT = 500_000
"""From this length on, the search yields to the event loop between spellings."""

_CODED = re.compile(r"[A-Za-z0-9+/_=-]{8,}")
"""Possible hexadecimal or base64. All such runs together are far shorter than most texts."""

Span = tuple[int, int]


class Mask:
    """Masks a set of secrets."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        kept = [secret for secret in secrets if len(secret) >= SHORTEST]
        self._plain = sorted({each for secret in kept for each in _spellings(secret)}, key=len, reverse=True)
        self._coded = sorted({each for secret in kept for each in _codes(secret)} - {*self._plain}, key=len, reverse=True)

    def text(self, text: str) -> str:
        """The masked text."""
        return _masked(text, [span for spans in self._found(text) for span in spans])

    def value(self, value: Any) -> Any:
        """The masked JSON value."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {self.text(key): self.value(each) for key, each in value.items()}
        return value

    def page(self, text: str, start: int, end: int) -> str:
        """A masked part of a text, also for a secret that begins before it or ends after it."""
        spans = [span for found in self._found(text) for span in found]
        inside = [
            (max(first, start) - start, min(last, end) - start) for first, last in spans if first < end and last > start
        ]
        return _masked(text[start:end], inside)

    async def result(self, result: ToolResult) -> ToolResult:
        """A masked result, also for a secret that continues from one block to the next."""
        if not self._plain:
            return result
        text, spans = result.text, list[Span]()
        for found in self._found(text):
            spans += found
            if len(text) > _LONG_TEXT:
                await anyio.lowlevel.checkpoint()
        if result.seams:
            spans += self._across(text, result.seams)
        return replace(result, text=_masked(text, spans), structured=self.value(result.structured), seams=())

    def _across(self, text: str, seams: Sequence[int]) -> Iterator[Span]:
        """The spans of secrets in the text without the line breaks between its blocks."""
        edges = [-1, *seams, len(text)]
        parts = [text[before + 1 : after] for before, after in pairwise(edges)]
        ends = list(accumulate(map(len, parts)))
        for found in self._found("".join(parts)):
            for first, last in found:  # each part that ended before an offset adds one line break
                yield first + bisect_right(ends, first), last + bisect_right(ends, last - 1)

    def _found(self, text: str) -> Iterator[list[Span]]:
        """The spans of secrets, one spelling at a time."""
        for spelling in self._plain:
            yield _places(spelling, text)
        runs = "\n".join(_CODED.findall(text)) if self._coded else ""
        for spelling in self._coded:
            yield _places(spelling, text) if spelling in runs else []


def _places(spelling: str, text: str) -> list[Span]:
    found, at = list[Span](), text.find(spelling)
    while at >= 0:
        found.append((at, at + len(spelling)))
        at = text.find(spelling, at + len(spelling))
    return found


def _masked(text: str, spans: list[Span]) -> str:
    if not spans:
        return text
    parts, last = list[str](), 0
    for first, end in sorted(spans):
        if first >= last:
            parts += [text[last:first], MASK]
        last = max(last, end)
    return "".join([*parts, text[last:]])


def _spellings(secret: str) -> Iterator[str]:
    """The spellings of a text that tools use: plain, JSON, JSON in JSON, URL, HTML."""
    quoted, inner = quote(secret, safe=""), json.dumps(secret)[1:-1]
    yield from (secret, inner, json.dumps(secret, ensure_ascii=False)[1:-1], json.dumps(inner)[1:-1])
    yield inner.replace("/", "\\/")
    yield from (quoted, quote(secret), quote_plus(secret), re.sub("%..", lambda found: found[0].lower(), quoted))
    yield from (escape(secret), escape(secret, quote=False))


def _codes(secret: str) -> Iterator[str]:
    """A text in hexadecimal, and inside base64."""
    data = secret.encode("utf-8", "replace")
    yield data.hex()
    yield data.hex().upper()
    for offset in range(3):
        encoded = _base64_core(data, offset)
        yield encoded
        yield encoded.replace("+", "-").replace("/", "_")


def _base64_core(data: bytes, offset: int) -> str:
    """The base64 characters that depend only on the secret, if it begins at this offset of a longer text."""
    encoded = b64encode(bytes(offset) + data).decode().rstrip("=")
    if (offset + len(data)) % 3:
        encoded = encoded[:-1]
    return encoded[(0, 2, 3)[offset] :]


class _LogMask(logging.Filter):
    """Masks log records, tracebacks included."""

    def __init__(self, mask: Mask) -> None:
        super().__init__()
        self._mask = mask

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        if (masked := self._mask.text(said)) != said:
            record.msg, record.args = masked, ()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self._mask.text(record.exc_text)
        return True


@contextmanager
def masked_logs(mask: Mask) -> Iterator[None]:
    """Mask everything that is logged in this block."""
    hiding, handlers = _LogMask(mask), list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(hiding)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(hiding)
