"""The tools of a client that look: `read_result`, `list_executions`, `get_execution_tree`, `query_executions`.

Owns their arguments and answers. All of them see what belongs to the client and nothing else; SQL sees everything, and is
there only for callers who may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from db.errors import QueryRefused
from db.ids import PATTERN
from db.listing import Wanted
from db.status import ExecutionStatus
from registry import fold
from runner.tools.dispatch import missing
from runner.tools.own import Arguments, OwnTool, answer, refuse
from runner.tools.protocol import ToolResult
from runner.tools.read_result import read_result_tool
from runner.transcript import ToolCall
from server.mcp_face.client import Client

LIST_EXECUTIONS, TREE, QUERY = "list_executions", "get_execution_tree", "query_executions"

MOST_LISTED, MOST_NODES, MOST_ROWS = 100, 500, 200
MOST_BYTES = 100_000
"""Of the rows of a query, as JSON: more is of no use to a model."""
SHOWN = 300
"""Characters of a task or a summary in lists and trees."""


class ListExecutionsArguments(Arguments):
    """Which executions."""

    status: ExecutionStatus | None = Field(default=None, strict=False, description="Only those in this status.")
    agent: str | None = Field(default=None, description="Only those of this agent or chain.")
    all_levels: bool = Field(default=False, description="Also those that other executions dispatched.")
    before: str | None = Field(default=None, description="`next_before` of the last answer, for the next page.")
    limit: int = Field(default=20, ge=1, le=MOST_LISTED, description="How many, newest first.")


class TreeArguments(Arguments):
    """Which execution."""

    execution_id: str = Field(description="The execution whose tree to show; any execution in it is a tree, too.")


class QueryArguments(Arguments):
    """What to ask."""

    sql: str = Field(min_length=1, max_length=20_000, description="One SELECT, in the dialect of SQLite.")


def looking_tools(client: Client) -> list[OwnTool[Any]]:
    """The tools of one client."""
    tools = _LookingTools(client)
    offered: list[OwnTool[Any]] = [
        read_result_tool(tools.full_text),
        OwnTool(
            LIST_EXECUTIONS,
            "Executions, newest first: who did what, how it ended, what it cost.",
            ListExecutionsArguments,
            tools.list_executions,
        ),
        OwnTool(
            TREE,
            "An execution with everything it dispatched, as a tree: status, time, tokens and cost of each.",
            TreeArguments,
            tools.tree,
        ),
    ]
    if client.who.reads_all:
        offered.append(
            OwnTool(
                QUERY,
                "Ask the database in SQL, read-only. Main tables and views: executions, events, messages, model_calls, "
                "tool_calls, execution_tree (sums of subtrees), agent_costs, critical_path, tool_errors, delegations, "
                "errors.",
                QueryArguments,
                tools.query,
            )
        )
    return offered


class _LookingTools:
    """What happens when a tool is called."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def full_text(self, identifier: str) -> str | None:
        found = await self._client.look(identifier)
        return found.result.text if found is not None and found.result is not None else None

    async def list_executions(self, _call: ToolCall, arguments: ListExecutionsArguments) -> ToolResult:
        if arguments.before is not None and not PATTERN.fullmatch(arguments.before):
            return refuse("invalid_arguments", "`before` is not an execution id", "give `next_before` of the last answer")
        wanted = Wanted(
            principal=self._client.who.principal,
            status=arguments.status,
            agent=self._spelt(arguments.agent),
            only_roots=not arguments.all_levels,
            before=arguments.before,
            limit=arguments.limit,
        )
        rows = await self._client.dispatcher.services.database.reads.listing(wanted)
        full = len(rows) == arguments.limit
        return answer({"executions": [_line(row) for row in rows], "next_before": rows[-1]["id"] if full else None})

    def _spelt(self, name: str | None) -> str | None:
        """A name as it is configured, however the client spells it."""
        settings = self._client.dispatcher.services.settings
        known = {fold(each): each for each in (*settings.agents, *settings.chains)}
        return known.get(fold(name), name) if name is not None else None

    async def tree(self, _call: ToolCall, arguments: TreeArguments) -> ToolResult:
        if await self._client.row(arguments.execution_id) is None:
            return missing(arguments.execution_id)
        return answer(await tree_of(self._client, arguments.execution_id))

    async def query(self, _call: ToolCall, arguments: QueryArguments) -> ToolResult:
        queries, who = self._client.dispatcher.services.database.queries, self._client.who.principal
        try:
            found = await queries.ask(who, arguments.sql, rows=MOST_ROWS, size=MOST_BYTES)
        except QueryRefused as error:
            return refuse("query_refused", str(error), error.hint)
        return answer({"columns": found["columns"], "rows": found["rows"], "truncated": found["truncated"]})


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    """One execution in a list."""
    return {
        "execution_id": row["id"],
        "parent_execution_id": row["parent_execution_id"],
        "agent": row["agent"],
        "task": _cut(row["task"]),
        "status": row["status"],
        "outcome": row["outcome"],
        "created_at": row["created_at"],
        "finished_at": row["finished_at"],
        "turns": row["turns"],
        "cost_usd": row["cost_usd"],
    }


async def tree_of(client: Client, top: str) -> dict[str, Any]:
    """The tree below an execution; of a very large one the first nodes, and it says so."""
    rows = await client.dispatcher.services.database.reads.tree(top)
    return {"tree": _nested(rows[:MOST_NODES]), "executions": len(rows), "truncated": len(rows) > MOST_NODES}


def _nested(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows, parents before children, as nested nodes."""
    nodes: dict[str, dict[str, Any]] = {}
    for row in rows:
        nodes[row["id"]] = node = {**_line(row), **_sums(row), "error": _cut(row["error"]), "children": []}
        if row["parent_execution_id"] in nodes:
            nodes[row["parent_execution_id"]]["children"].append(node)
    return nodes[rows[0]["id"]]


def _sums(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("own_seconds", "own_tokens", "subtree_seconds", "subtree_tokens", "subtree_cost_usd", "subtree_executions")
    return {name: row[name] for name in (*names, "budget_usd", "budget_tokens")}
