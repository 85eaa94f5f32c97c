"""A server's list of tools, read page by page, with the caps that a hostile server requires.

Owns pagination, caps, duplicates, filters and fingerprints. Must not know: sent names, agents or connections.
Invariants: a listing ends, in the server's order, with each tool once; omissions are in `remarks`; no schema refers
outside itself.
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
"""The loop yields in between."""
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


@dataclass(frozen=True, slots=True)
class Hints:
    """A server's own annotations of a tool; they count only if the configuration trusts the server."""

    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as its server describes it, under the server's own name."""

    tool: str
    description: str
    """Longer than the part that is shown, so that a secret is recognised before the cut."""
    input_schema: Mapping[str, Any]
    hints: Hints = Hints()


@dataclass(frozen=True, slots=True)
class ToolListing:
    """The tools of one server, and what was left out: a kind and a sentence each."""

    offers: Mapping[str, Offer]
    remarks: tuple[tuple[str, str], ...] = ()
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Of every listed tool, offered or not: shows a change of its definition."""


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
        remarks["pages"] = ("list_cut", f"`{spec.name}` has an endless list of tools; {len(offers)} were read")
    return ToolListing(offers, tuple(remarks.values())[:REMARK_CAP], fingerprints)


def _take(tool: t.Tool, spec: UpstreamSpec, offers: dict[str, Offer], remarks: dict[str, tuple[str, str]]) -> None:
    label = f"{spec.name}.{tool.name[:200]}"
    if not spec.tools.permits(tool.name):
        return
    if tool.name in offers:
        remarks[tool.name] = ("duplicate_tool", f"`{label}` is listed more than once; the first was kept")
    elif len(offers) >= TOOL_CAP:
        remarks["tools"] = ("list_cut", f"`{spec.name}` lists more than {TOOL_CAP} tools; the rest is left out")
    elif (fault := _schema_fault(tool.input_schema)) is not None:
        remarks[tool.name] = ("tool_left_out", f"`{label}` was left out: its schema {fault}")
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
    """The schema in the API's form: of an object, with clean text."""
    return {**cleaned(dict(schema)), "type": "object"}


def _schema_fault(schema: Mapping[str, Any]) -> str | None:
    """Why a schema is refused. It is walked, never resolved or run."""
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > SCHEMA_DEPTH:
            return f"is nested more than {SCHEMA_DEPTH} deep"
        if isinstance(value, dict):
            if any(not str(value[key]).startswith("#") for key in _REFERENCES & value.keys()):
                return "refers outside itself"
            waiting.extend((each, depth + 1) for each in value.values())
        elif isinstance(value, list):
            waiting.extend((each, depth + 1) for each in value)
    return f"is longer than {SCHEMA_CAP} bytes" if len(to_json(schema)) > SCHEMA_CAP else None


def fingerprint(tool: t.Tool) -> str:
    """A hash of the tool's whole definition, invisible characters included, whatever the order of its keys."""
    fields = {"title", "description", "input_schema", "output_schema", "annotations"}
    said = tool.model_dump(mode="json", by_alias=True, exclude_none=True, include=fields)
    try:
        canonical = json.dumps(said, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        # Nested too deep, so it is never offered; only its existence is remembered.
        canonical = "nested beyond sense"
    return sha256(canonical.encode()).hexdigest()
