"""Masking: no secret this process holds is shown to a model or stored, in whatever spelling a tool returns it.

Owns the spellings and the replacement; which values are secrets is said by the registry. It does not guess at secrets of
others. Its one invariant: the cost grows with the text, never with what is in it; there is no pattern in it to run wild.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import anyio.lowlevel

from registry.masking import MASK
from runner.tools.protocol import ToolResult

SHORTEST = 8
"""Characters below which a value is no secret worth the name, and would be found everywhere."""

_LONG_TEXT = 500_000
"""From here on others have their turn between two searches."""


class Mask:
    """Hides a set of secrets."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings = {each for secret in secrets if len(secret) >= SHORTEST for each in _spellings(secret)}
        # The longest first: one secret may be the beginning of another.
        self._spellings = sorted(spellings, key=len, reverse=True)

    def text(self, text: str) -> str:
        """The text without secrets."""
        for spelling in self._spellings:
            if spelling in text:
                text = text.replace(spelling, MASK)
        return text

    def value(self, value: Any) -> Any:
        """A JSON value without secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {self.text(key): self.value(each) for key, each in value.items()}
        return value

    async def result(self, result: ToolResult) -> ToolResult:
        """A result without secrets."""
        if not self._spellings:
            return result
        text = result.text
        for spelling in self._spellings:
            if spelling in text:
                text = text.replace(spelling, MASK)
            if len(text) > _LONG_TEXT:
                await anyio.lowlevel.checkpoint()
        return replace(result, text=text, structured=self.value(result.structured))


def _spellings(secret: str) -> Iterator[str]:
    """The ways in which tools write a text: as it is, in JSON, in an address, in hexadecimal, inside base64."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    quoted = quote(secret, safe="")
    yield quoted
    yield quote(secret)
    yield re.sub("%..", lambda found: found[0].lower(), quoted)
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
