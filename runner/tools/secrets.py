"""Masking: no secret this process holds is shown to a model or stored, in whatever spelling a tool returns it.

Owns the spellings and the replacement; which values are secrets is said by the registry. It does not guess at secrets of
others. Its one invariant: the cost grows with the text, never with what is in it; there is no pattern in it to run wild.
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
"""From here on others have their turn between two searches."""

_CODED = re.compile(r"[A-Za-z0-9+/_=-]{8,}")
"""What may be hexadecimal or base64. All such runs together are far shorter than most texts."""

Span = tuple[int, int]


class Mask:
    """Hides a set of secrets."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        kept = [secret for secret in secrets if len(secret) >= SHORTEST]
        self._plain = sorted({each for secret in kept for each in _spellings(secret)}, key=len, reverse=True)
        self._coded = sorted({each for secret in kept for each in _codes(secret)} - {*self._plain}, key=len, reverse=True)

    def text(self, text: str) -> str:
        """The text without secrets."""
        return _masked(text, [span for spans in self._found(text) for span in spans])

    def value(self, value: Any) -> Any:
        """A JSON value without secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {self.text(key): self.value(each) for key, each in value.items()}
        return value

    def page(self, text: str, start: int, end: int) -> str:
        """A part of a text without secrets, nor a piece of one that begins before it or ends after it."""
        spans = [span for found in self._found(text) for span in found]
        inside = [
            (max(first, start) - start, min(last, end) - start) for first, last in spans if first < end and last > start
        ]
        return _masked(text[start:end], inside)

    async def result(self, result: ToolResult) -> ToolResult:
        """A result without secrets, also where one goes on from one block of it to the next."""
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
        """Where secrets are in the text as it is without the line breaks between its blocks."""
        edges = [-1, *seams, len(text)]
        parts = [text[before + 1 : after] for before, after in pairwise(edges)]
        ends = list(accumulate(map(len, parts)))
        for found in self._found("".join(parts)):
            for first, last in found:  # as many line breaks stand before a place as parts have ended there
                yield first + bisect_right(ends, first), last + bisect_right(ends, last - 1)

    def _found(self, text: str) -> Iterator[list[Span]]:
        """Where secrets are, a spelling at a time."""
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
    """The ways in which tools write a text: as it is, in JSON, in JSON in JSON, in an address, in a page."""
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
    """The characters of a longer text in base64 that say nothing but the secret, which begins at this offset in it."""
    encoded = b64encode(bytes(offset) + data).decode().rstrip("=")
    if (offset + len(data)) % 3:
        encoded = encoded[:-1]
    return encoded[(0, 2, 3)[offset] :]


class _LogMask(logging.Filter):
    """Hides secrets in what is logged, tracebacks included."""

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
    """Nothing that is logged meanwhile holds a secret."""
    hiding, handlers = _LogMask(mask), list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(hiding)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(hiding)
