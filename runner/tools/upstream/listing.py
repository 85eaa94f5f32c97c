"""The tools an upstream offers, read page by page with every cap a hostile server makes necessary.

Owns: pagination, caps, duplicates, filters and fingerprints of one listing. Must not know: sent names, agents or
connections.
Invariant: a listing ends, in the server's own order, with each tool once; what was left out is said in `remarks`; no
schema in it reaches outside itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import anyio.lowlevel
from pydantic_core import to_json

from runner.messages import clean
from runner.tools.upstream.content import cleaned

if TYPE_CHECKING:
    import mcp.types as t
    from mcp import Client

    from registry.specs.upstreams import UpstreamSpec

PAGE_CAP = 100
TOOL_CAP = 1000
DESCRIPTION_CAP = 16_000
SCHEMA_CAP = 100_000
SCHEMA_DEPTH = 60
REMARK_CAP = 50

_TOOLS_AT_ONCE = 100
"""Others have their turn in between."""
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


@dataclass(frozen=True, slots=True)
class Hints:
    """What a server says of a tool's nature. Its own word: it counts only where the operator trusts the server."""

    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as its server describes it, under the server's own name."""

    tool: str
    description: str
    """Longer than what is shown of it, so that a secret is known before it is cut."""
    input_schema: Mapping[str, Any]
    hints: Hints = Hints()


@dataclass(frozen=True, slots=True)
class ToolListing:
    """What one server offers, and what was left out of it: (kind, sentence) each."""

    offers: Mapping[str, Offer]
    remarks: tuple[tuple[str, str], ...] = ()
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Of every tool listed, offered or not: what a change of its definition is told by."""


async def list_offers(client: Client, spec: UpstreamSpec) -> ToolListing:
    """Read all pages of a server's tools."""
    offers: dict[str, Offer] = {}
    remarks: dict[str, tuple[str, str]] = {}
    fingerprints: dict[str, str] = {}
    cursors: set[str] = set()
    cursor: str | None = None
    for _ in range(PAGE_CAP):
        page = await client.list_tools(cursor=cursor)
        for number, tool in enumerate(page.tools):
            if number % _TOOLS_AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
            _take(tool, spec, offers, remarks)
            if len(fingerprints) < TOOL_CAP:
                fingerprints.setdefault(tool.name, fingerprint(tool))
        cursor = page.next_cursor
        if cursor is None:
            break
        if cursor in cursors or len(offers) >= TOOL_CAP:
            break
        cursors.add(cursor)
    if cursor is not None and len(offers) < TOOL_CAP:
        remarks["pages"] = ("list_cut", f"`{spec.name}` never ends its list of tools; {len(offers)} were taken")
    return ToolListing(offers, tuple(remarks.values())[:REMARK_CAP], fingerprints)


def _take(tool: t.Tool, spec: UpstreamSpec, offers: dict[str, Offer], remarks: dict[str, tuple[str, str]]) -> None:
    label = f"{spec.name}.{tool.name[:200]}"
    if not spec.tools.permits(tool.name):
        return
    if tool.name in offers:
        remarks[tool.name] = ("duplicate_tool", f"`{label}` is listed more than once; the first was kept")
    elif len(offers) >= TOOL_CAP:
        remarks["tools"] = ("list_cut", f"`{spec.name}` lists more than {TOOL_CAP} tools; the rest was left out")
    elif (trouble := _trouble(tool.input_schema)) is not None:
        remarks[tool.name] = ("tool_left_out", f"`{label}` was left out: its schema {trouble}")
    else:
        offers[tool.name] = Offer(tool.name, _description(tool), _schema(tool.input_schema), _hints(tool))


def _description(tool: t.Tool) -> str:
    return clean(tool.description or tool.title or "")[: 2 * DESCRIPTION_CAP]


def _hints(tool: t.Tool) -> Hints:
    said = tool.annotations
    if said is None:
        return Hints()
    return Hints(said.read_only_hint is True, said.idempotent_hint is True, said.destructive_hint is True)


def _schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema as the API takes it: of an object, and of clean text."""
    return {**cleaned(dict(schema)), "type": "object"}


def _trouble(schema: Mapping[str, Any]) -> str | None:
    """Why a schema is not passed on. It is walked, never resolved or run."""
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > SCHEMA_DEPTH:
            return f"is nested more than {SCHEMA_DEPTH} deep"
        if isinstance(value, dict):
            if any(not str(value[key]).startswith("#") for key in _REFERENCES & value.keys()):
                return "refers to something outside itself"
            waiting.extend((each, depth + 1) for each in value.values())
        elif isinstance(value, list):
            waiting.extend((each, depth + 1) for each in value)
    return f"is longer than {SCHEMA_CAP} bytes" if len(to_json(schema)) > SCHEMA_CAP else None


def fingerprint(tool: t.Tool) -> str:
    """What a tool is known by: all its server says of it, to the last invisible character, in whatever order of keys."""
    fields = {"title", "description", "input_schema", "output_schema", "annotations"}
    said = tool.model_dump(mode="json", by_alias=True, exclude_none=True, include=fields)
    try:
        canonical = json.dumps(said, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        # Nested beyond sense, so it is offered to nobody; that it is there is all there is to remember.
        canonical = "nested beyond sense"
    return sha256(canonical.encode()).hexdigest()
