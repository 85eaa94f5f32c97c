"""The tools an upstream offers, read page by page with every cap a hostile server makes necessary.

Owns: pagination, caps, duplicates and filters of one listing. Must not know: sent names, agents or connections.
Invariant: a listing ends, in the server's own order, with each tool once; what was left out is said in `remarks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from runner.tools.content import cleaned
from runner.transcript import clean

if TYPE_CHECKING:
    import mcp.types as t
    from mcp import Client

    from registry.upstreams import UpstreamSpec

PAGE_CAP = 100
TOOL_CAP = 1000
DESCRIPTION_CAP = 16_000
SCHEMA_CAP = 100_000
REMARK_CAP = 50


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as its server describes it, under the server's own name."""

    tool: str
    description: str
    input_schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """What one server offers, and what was left out of it: (kind, sentence) each."""

    offers: Mapping[str, Offer]
    remarks: tuple[tuple[str, str], ...] = ()


async def list_offers(client: Client, spec: UpstreamSpec) -> Listing:
    """Read all pages of a server's tools."""
    offers: dict[str, Offer] = {}
    remarks: dict[str, tuple[str, str]] = {}
    cursors: set[str] = set()
    cursor: str | None = None
    for _ in range(PAGE_CAP):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            _take(tool, spec, offers, remarks)
        cursor = page.next_cursor
        if cursor is None:
            break
        if cursor in cursors or len(offers) >= TOOL_CAP:
            break
        cursors.add(cursor)
    if cursor is not None and len(offers) < TOOL_CAP:
        remarks["pages"] = ("list_cut", f"`{spec.name}` never ends its list of tools; {len(offers)} were taken")
    return Listing(offers, tuple(remarks.values())[:REMARK_CAP])


def _take(tool: t.Tool, spec: UpstreamSpec, offers: dict[str, Offer], remarks: dict[str, tuple[str, str]]) -> None:
    label = f"{spec.name}.{tool.name[:200]}"
    if not spec.tools.permits(tool.name):
        return
    if tool.name in offers:
        remarks[tool.name] = ("duplicate_tool", f"`{label}` is listed more than once; the first was kept")
    elif len(offers) >= TOOL_CAP:
        remarks["tools"] = ("list_cut", f"`{spec.name}` lists more than {TOOL_CAP} tools; the rest was left out")
    elif len(to_json(tool.input_schema)) > SCHEMA_CAP:
        remarks[tool.name] = ("tool_left_out", f"`{label}` was left out: its schema is longer than {SCHEMA_CAP} bytes")
    else:
        offers[tool.name] = Offer(tool.name, _description(tool), _schema(tool.input_schema))


def _description(tool: t.Tool) -> str:
    text = clean(tool.description or tool.title or "")
    return text if len(text) <= DESCRIPTION_CAP else text[:DESCRIPTION_CAP] + " [cut]"


def _schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema as the API takes it: of an object, and of clean text."""
    return {**cleaned(dict(schema)), "type": "object"}
