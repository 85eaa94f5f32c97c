"""Resources: `execution://{id}`, its tree, transcript and plan, `agents://catalog` and `executions://registry`; templates
and their completion.

Owns the URIs and their contents, as JSON. A foreign id is as unknown as one that never existed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as t
from pydantic_core import from_json, to_json

from db.ids import ALPHABET, named_among
from db.rows.lists import ListFilter
from runner.core.delegation import exported
from runner.strategies.iterate.export import tasks_of
from runner.strategies.plan.export import plan_of
from runner.tools.dispatch import describe, shown_agents
from server.mcp_face.client import Client
from server.mcp_face.query_tools import tree_of
from server.mcp_face.updates import Behind

CATALOG = "agents://catalog"
REGISTRY = "executions://registry"
JSON = "application/json"
SUGGESTED, LOOKED_AT = 20, 100

_EXECUTION = re.compile(rf"execution://([{ALPHABET}]+)(?:/(tree|transcript|plan))?")

TEMPLATES = (
    t.ResourceTemplate(
        name="execution",
        title="An execution",
        uri_template="execution://{id}",
        description="Status, result and usage of one execution.",
        mime_type=JSON,
    ),
    t.ResourceTemplate(
        name="execution_tree",
        title="An execution tree",
        uri_template="execution://{id}/tree",
        description="An execution with everything it dispatched: status, time, tokens and cost of each.",
        mime_type=JSON,
    ),
    t.ResourceTemplate(
        name="execution_transcript",
        title="A transcript",
        uri_template="execution://{id}/transcript",
        description="What was said to and by the model of an execution, with its tool calls and their results.",
        mime_type=JSON,
    ),
    t.ResourceTemplate(
        name="execution_plan",
        title="A plan",
        uri_template="execution://{id}/plan",
        description="The steps of an execution with a plan, in every version, or its tasks, and what became of each.",
        mime_type=JSON,
    ),
)

RESOURCES = (
    t.Resource(
        name="catalog",
        title="Agents and chains",
        uri=CATALOG,
        description="The agents that can be dispatched and the chains that can be run.",
        mime_type=JSON,
    ),
    t.Resource(
        name="registry",
        title="Delegations",
        uri=REGISTRY,
        description="What agents have handed to each other: all that is at work, and what ended within the last hour.",
        mime_type=JSON,
    ),
)


async def read(client: Client, uri: str) -> t.TextResourceContents | None:
    """The contents of a URI; None if it does not exist, or not for this client."""
    if uri == CATALOG:
        return _contents(uri, _catalog(client))
    if uri == REGISTRY:
        rows = await client.dispatcher.services.database.reads.delegations.tracked(client.who.principal)
        return _contents(uri, exported(rows))
    match = _EXECUTION.fullmatch(uri)
    child = await client.look(match[1]) if match else None
    if match is None or child is None:
        return None
    if match[2] == "tree":
        return _contents(uri, await tree_of(client, child.id))
    if match[2] == "transcript":
        return _contents(uri, await _transcript(client, child.id))
    if match[2] == "plan":
        reads = client.dispatcher.services.database.reads
        plan = await plan_of(reads, child.id) or await tasks_of(reads, child.id)
        return _contents(uri, plan) if plan is not None else None
    return _contents(uri, describe(child, (await client.subtree_usage([child.id])).get(child.id)))


async def tree_behind(client: Client, uri: str) -> Behind | None:
    """The tree behind a URI, for a subscription of this client; None if there is none that could change."""
    match = _EXECUTION.fullmatch(uri)
    row = await client.row(match[1]) if match is not None else None
    if match is None or row is None:
        return None
    newest = await client.dispatcher.services.database.reads.last_event(row["root_execution_id"])
    address = uri.replace(match[1], row["id"], 1)
    return Behind(row["root_execution_id"], newest["seq"] if newest is not None else 0, address)


async def suggestions(client: Client, given: str) -> Sequence[str]:
    """Ids of the client's latest executions that begin or end with `given`."""
    reads = client.dispatcher.services.database.reads
    rows = await reads.listing(ListFilter(client.who.principal, limit=LOOKED_AT))
    return named_among(given, [row["id"] for row in rows])[:SUGGESTED] if given else [row["id"] for row in rows][:SUGGESTED]


def _contents(uri: str, content: Any) -> t.TextResourceContents:
    return t.TextResourceContents(uri=uri, mime_type=JSON, text=to_json(content).decode())


def _catalog(client: Client) -> dict[str, Any]:
    settings = client.dispatcher.services.settings
    chains = [
        {"name": chain.name, "description": chain.description, "alert_types": list(chain.alert_types)}
        for chain in settings.chains.values()
    ]
    return {"agents": shown_agents(client.catalogue), "chains": chains}


async def _transcript(client: Client, execution: str) -> dict[str, Any]:
    reads = client.dispatcher.services.database.reads
    said = [
        {"role": row["role"], "kind": row["kind"], "content": from_json(row["content"])}
        for row in await reads.messages(execution)
    ]
    called = [_tool_call(row) for row in await reads.tool_calls(execution)]
    return {"execution_id": execution, "messages": said, "tool_calls": called}


def _tool_call(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("call_id", "tool", "arguments", "status", "result", "error_type", "started_at", "finished_at")
    return {name: row[name] for name in names if row[name] is not None}
