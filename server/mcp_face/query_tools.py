"""The read-only tools of a client: `read_result`, `list_executions`, `get_execution_tree`, `query_executions`.

Owns their arguments and answers. They return only the client's own executions. SQL reads all executions, and is offered
only to local callers and callers with the scope `executions:read_all`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from db.errors import QueryRefused
from db.ids import PATTERN
from db.status import ExecutionStatus
from registry import fold
from runner.messages import ToolCall
from runner.tools.builtin import Arguments, OwnTool, answer, refuse
from runner.tools.dispatch import first_words, missing
from runner.tools.protocol import ToolResult
from runner.tools.read_result import read_result_tool

if TYPE_CHECKING:
    from server.mcp_face.client import Client

LIST_EXECUTIONS, TREE, QUERY = "list_executions", "get_execution_tree", "query_executions"

MOST_LISTED, MOST_NODES, MOST_ROWS = 100, 500, 200
MOST_BYTES = 100_000
"""Limit of the rows of a query, as JSON: more is of no use to a model."""
SHOWN = 300
"""Longest error text in a tree, in characters."""


class ListExecutionsArguments(Arguments):
    """Which executions."""

    status: ExecutionStatus | None = Field(default=None, strict=False, description="Only this status.")
    agent: str | None = Field(default=None, description="Only this agent or chain.")
    all_levels: bool = Field(default=False, description="Also what executions started.")
    before: str | None = Field(default=None, description="`next_before` of the last page.")
    limit: int = Field(default=20, ge=1, le=MOST_LISTED, description="How many.")


class TreeArguments(Arguments):
    """Which execution."""

    execution_id: str = Field(description="Whole or short id.")


class QueryArguments(Arguments):
    """What to ask."""

    sql: str = Field(min_length=1, max_length=20_000, description="One SELECT, for SQLite.")


def query_tools(client: Client) -> list[OwnTool[Any]]:
    tools = _QueryTools(client)
    offered: list[OwnTool[Any]] = [
        read_result_tool(tools.full_text),
        OwnTool(
            LIST_EXECUTIONS,
            "Executions, newest first, with their cost, alone and with everything below.",
            ListExecutionsArguments,
            tools.list_executions,
        ),
        OwnTool(
            TREE,
            "An execution and everything below it, with status, time and cost of each.",
            TreeArguments,
            tools.tree,
        ),
    ]
    if client.who.reads_all:
        offered.append(
            OwnTool(
                QUERY,
                "Ask the database in SQL, read-only. Tables and views: executions, events, messages, model_calls, "
                "tool_calls, execution_tree, agent_costs, critical_path, tool_errors, delegations, errors.",
                QueryArguments,
                tools.query,
            )
        )
    return offered


class _QueryTools:
    """The handlers of the tools."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def full_text(self, identifier: str) -> str | None:
        found = await self._client.look(identifier)
        return found.result.text if found is not None and found.result is not None else None

    async def list_executions(self, _call: ToolCall, arguments: ListExecutionsArguments) -> ToolResult:
        from db.rows.lists import ListFilter  # late: the tools are listed before the database layer is imported

        if arguments.before is not None and not PATTERN.fullmatch(arguments.before):
            return refuse("invalid_arguments", "`before` is not an execution id", "give `next_before` of the last answer")
        wanted = ListFilter(
            principal=self._client.who.principal,
            status=arguments.status,
            agent=self._spelt(arguments.agent),
            only_roots=not arguments.all_levels,
            before=arguments.before,
            limit=arguments.limit,
        )
        rows = await self._client.dispatcher.services.database.reads.listing(wanted)
        used = await self._client.subtree_usage([row["id"] for row in rows]) if rows else {}
        shown: dict[str, Any] = {"executions": [_listed(row, used.get(row["id"])) for row in rows]}
        return answer({**shown, "next_before": rows[-1]["id"]} if len(rows) == arguments.limit else shown)

    def _spelt(self, name: str | None) -> str | None:
        """The configured spelling of an agent or chain name."""
        settings = self._client.settings
        known = {fold(each): each for each in (*settings.agents, *settings.chains)}
        return known.get(fold(name), name) if name is not None else None

    async def tree(self, _call: ToolCall, arguments: TreeArguments) -> ToolResult:
        row = await self._client.row(arguments.execution_id)
        return answer(await tree_of(self._client, row["id"])) if row is not None else missing(arguments.execution_id)

    async def query(self, _call: ToolCall, arguments: QueryArguments) -> ToolResult:
        queries, who = self._client.dispatcher.services.database.queries, self._client.who.principal
        try:
            found = await queries.ask(who, arguments.sql, rows=MOST_ROWS, size=MOST_BYTES)
        except QueryRefused as error:
            return refuse("query_refused", str(error), error.hint)
        return answer({"columns": found["names"], "rows": found["rows"], "truncated": found["truncated"]})


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    """One execution in a list or tree, without empty fields and without an outcome equal to the status."""
    from runner.core.views import elapsed_in  # late, as above

    line = {
        "execution_id": row["id"],
        "agent": row["agent"],
        "task": first_words(row["task"] or ""),
        "status": row["status"],
        "outcome": row["outcome"] if row["outcome"] != row["status"] else None,
        "created_at": f"{row['created_at'][:19]}Z",
        "own_seconds": round(row["own_seconds"] if "own_seconds" in row else elapsed_in(row), 1),
        "turns": row["turns"],
        "cost_usd": round(row["cost_usd"], 6),
    }
    return {name: value for name, value in line.items() if value not in (None, "")}


def _listed(row: Mapping[str, Any], subtree: Mapping[str, Any] | None) -> dict[str, Any]:
    """One execution in a list, with the sums of its subtree if it has children."""
    line = _line(row)
    if subtree is not None and subtree["executions"] > 1:
        line |= {f"subtree_{name}": subtree[name] for name in ("cost_usd", "tokens", "executions")}
    return {**line, "parent_execution_id": row["parent_execution_id"]} if row["parent_execution_id"] else line


async def tree_of(client: Client, top: str) -> dict[str, Any]:
    """The tree of an execution, truncated to `MOST_NODES`."""
    rows = await client.dispatcher.services.database.reads.tree(top)
    shown = {"tree": _nested(rows[:MOST_NODES]), "executions": len(rows)}
    return {**shown, "truncated": True} if len(rows) > MOST_NODES else shown


def _nested(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Nest rows into nodes; parents come before their children in `rows`."""
    nodes: dict[str, dict[str, Any]] = {}
    for row in rows:
        nodes[row["id"]] = node = {**_line(row), **_sums(row)}
        if row["parent_execution_id"] in nodes:
            nodes[row["parent_execution_id"]].setdefault("children", []).append(node)
        elif row["parent_execution_id"]:
            node["parent_execution_id"] = row["parent_execution_id"]
    return nodes[rows[0]["id"]]


def _sums(row: Mapping[str, Any]) -> dict[str, Any]:
    """The usage of a node, with the sums of its subtree if it has children."""
    sums: dict[str, Any] = {"own_tokens": row["own_tokens"]}
    if row["subtree_executions"] > 1:
        sums |= {f"subtree_{name}": row[f"subtree_{name}"] for name in ("tokens", "executions")}
        sums |= {"subtree_seconds": round(row["subtree_seconds"], 1), "subtree_cost_usd": round(row["subtree_cost_usd"], 6)}
    rest = {"budget_usd": row["budget_usd"], "budget_tokens": row["budget_tokens"], "error": _cut(row["error"])}
    return sums | {name: value for name, value in rest.items() if value is not None}


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= SHOWN else text[: SHOWN - 1] + "…"
