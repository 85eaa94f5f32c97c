"""Read models: executions, trees, transcripts, inboxes and events, through aiosqlite, never blocking a writer.

Returns plain rows (mappings); the layers above interpret them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import anyio
from sqlalchemy import Executable, and_, column, func, literal_column, or_, select, table, union_all
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from db.clock import moment
from db.errors import DatabaseUnavailable, SchemaTooNew, UnknownExecution
from db.ids import LAST, SHORT, shortened
from db.rows.approvals import Questions, asked_to_repeat
from db.rows.contents import Contents
from db.rows.deletion import Belongings
from db.rows.error_records import ErrorRecords
from db.rows.interrupted import InterruptedTrees
from db.rows.lists import CommandCalls, Delegations, ListFilter, listed, recently_completed
from db.rows.memories import Facts
from db.rows.outlines import Outlines
from db.rows.overview import Overview, pricing_kind, tells_stage
from db.rows.pages import Pages
from db.rows.plans import Plans
from db.rows.stored_events import StoredEvents
from db.rows.transcript import OPEN_CALLS
from db.rows.trees import summed, tree_query
from db.rows.usage import UsageReads
from db.rows.users import UserReads
from db.rows.work_items import WorkItems
from db.status import OPEN
from db.store.engine import follow, open_reader
from db.store.location import can_create_beside, state_at_rest
from db.store.migrate import known_migrations, schema_version
from db.store.outage import is_passing, unavailable, unreadable
from db.tables import (
    below,
    config_snapshots,
    deliveries,
    each_of,
    ending,
    executions,
    meanings,
    messages,
    model_calls,
    of_key,
    tool_calls,
    unindexed,
    upstream_tools,
)
from db.tables import events as events_table

Record = Mapping[str, Any]

_totals = table(
    "subtree_totals", *(column(name) for name in ("id", "executions", "turns", "tool_calls", "tokens", "cost_usd"))
)

_OPEN = sorted(status.value for status in OPEN)

CLOSING_SECONDS = 2.0
"""Seconds for closing the connections: one that broke in the middle of a read never answers."""
PAUSES = (0.05, 0.2, 0.5, 0.75)
"""Seconds before a failed read is retried, where a retry may help: a transient error must not fail an execution."""


class Reads:
    """Queries over one database."""

    def __init__(self, path: Path, openings: Callable[[], int] = lambda: 1) -> None:
        self._path = path
        self._engine: AsyncEngine = open_reader(path)
        self._read = self._rows if can_create_beside(path) else self._rows_at_rest
        follow(self._engine, openings)
        self.overview = Overview(self._all)
        """Sums, prices and events of many trees."""
        self.questions = Questions(self._all)
        """Approval questions."""
        self.interrupted = InterruptedTrees(self._all)
        """Open executions of processes that have ended."""
        self.people = UserReads(self._all)
        """Users and their chat messages."""
        self.facts = Facts(self._all)
        """Facts about users."""
        self.belongings = Belongings(self._all)
        """The rows that deleting a tree would remove."""
        self.plans = Plans(self._all)
        """Plans of executions."""
        self.delegations = Delegations(self._all)
        """Delegations between agents."""
        self.error_records = ErrorRecords(self._all)
        """Recorded errors."""
        self.calls = CommandCalls(self._all)
        """Calls of commands."""
        self.stream = StoredEvents(self._all)
        """The events of all trees, in order."""
        self.work_items = WorkItems(self._all)
        """Work items."""
        self.outlines = Outlines(self._all)
        """Trees without their texts."""
        self.pages = Pages(self._all)
        """Pages of executions."""
        self.usage = UsageReads(self._all)
        """Usage by agent, model and day."""
        self.contents = Contents(self._all)
        """What is inside executions: messages, calls, questions, texts."""

    async def close(self) -> None:
        """Close the connections."""
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):  # no read is running
            await self._engine.dispose()

    async def _all(self, query: Executable, parameters: Mapping[str, Any] | None = None) -> list[Record]:
        for pause in PAUSES:
            try:
                return await self._read(query, parameters or {})
            except DBAPIError as error:
                if not is_passing(error):
                    raise unavailable(self._path, error, "read") from error
            await anyio.sleep(pause)
        try:
            return await self._read(query, parameters or {})
        except DBAPIError as error:
            raise unavailable(self._path, error, "read") from error

    async def _rows_at_rest(self, query: Executable, parameters: Mapping[str, Any]) -> list[Record]:
        """Rows of a file that is read without locks: once more when a process has opened it meanwhile."""
        while True:
            before = state_at_rest(self._path)
            try:
                rows = await self._rows(query, parameters)
            except DBAPIError:
                if before == state_at_rest(self._path):
                    raise
                continue
            if before is None or before == state_at_rest(self._path):
                return rows

    async def _rows(self, query: Executable, parameters: Mapping[str, Any]) -> list[Record]:
        rows: list[Record] = []
        # Shielded: a read is short, and cancelling one would break its connection.
        with anyio.CancelScope(shield=True):
            async with self._engine.connect() as connection:
                result = await connection.execute(query, parameters)
                names = tuple(result.keys())
                rows += (dict(zip(names, row, strict=True)) for row in result)
        return rows

    async def check(self) -> None:
        """Check that the schema fits these queries; raises SchemaTooNew or DatabaseUnavailable."""
        try:
            async with self._engine.connect() as connection:
                found = await connection.run_sync(schema_version)
        except DBAPIError as error:
            raise unreadable(self._path, str(error.orig)) from error
        newest = known_migrations("sqlite")[-1].version
        if found > newest:
            raise SchemaTooNew(str(self._path), found, newest)
        if found < newest:
            raise DatabaseUnavailable(
                f"the database `{self._path}` has schema version {found}, this Outrider reads {newest}",
                "open it once with `outrider dashboard` or `outrider serve`, which bring it up to date",
            )

    # -- upstreams -----------------------------------------------------------------------------------------------------

    async def fingerprints(self, server: str) -> Mapping[str, str]:
        """The fingerprints of a server's tools, by tool."""
        rows = await self._all(select(upstream_tools).where(upstream_tools.c.server == server))
        return {row["tool"]: row["fingerprint"] for row in rows}

    # -- executions ----------------------------------------------------------------------------------------------------

    async def execution(self, identifier: str) -> Record | None:
        """One execution, or None."""
        found = await self._all(select(executions).where(executions.c.id == identifier))
        return found[0] if found else None

    async def those(self, identifiers: Sequence[str]) -> list[Record]:
        """The executions with these ids, in this order."""
        found = {row["id"]: row for row in await self._all(select(executions).where(executions.c.id.in_(identifiers)))}
        return [found[each] for each in identifiers if each in found]

    async def keyed(self, principal: str | None, key: str) -> Record | None:
        """The top-level execution that a caller started with this key, or None."""
        found = await self._all(select(executions).where(of_key()), {"asker": principal or "", "key": key})
        return found[0] if found else None

    async def resolve(self, given: str) -> str:
        """The one execution that a whole id, its beginning or its end names; raises UnknownExecution."""
        found = await self.named(given)
        if len(found) != 1:
            raise UnknownExecution(given, found)
        return found[0]

    async def named(self, given: str, principal: str | None = None) -> list[str]:
        """The executions, at most 100, of all principals or of one, that a whole or short id may mean.

        The one rule for every face: a matching beginning counts before a matching end.
        """
        for meant in meanings(executions.c.id, given):
            query = select(executions.c.id).where(meant)
            if principal is not None:
                query = query.where(unindexed(executions.c.principal) == principal)
            rows = await self._all(query.order_by(executions.c.id).limit(100))
            if rows:
                return [str(row["id"]) for row in rows]
        return []

    async def short(self, identifier: str) -> str:
        """The shortest end of an id, of at least six characters, that names this execution and no other."""
        return (await self.shorts([identifier]))[identifier]

    async def shorts(self, identifiers: Sequence[str]) -> Mapping[str, str]:
        """The short forms of many ids, by one query that searches all executions for each of them."""
        given = each_of(sorted({identifier[-SHORT:] for identifier in identifiers}))
        begin = and_(executions.c.id >= given.c.value, executions.c.id < given.c.value.concat(LAST))
        meant = (ending(executions.c.id) == given.c.value, begin)
        alike = [select(given.c.value, executions.c.id).select_from(given).join(executions, on) for on in meant]
        others = dict[str, list[str]]()
        for row in await self._all(union_all(*alike)):
            others.setdefault(row["value"], []).append(row["id"])
        return {identifier: shortened(identifier, others.get(identifier[-SHORT:], ())) for identifier in identifiers}

    async def children(self, parent: str) -> list[Record]:
        """The children of an execution, in order."""
        query = select(executions).where(executions.c.parent_execution_id == parent)
        return await self._all(query.order_by(executions.c.created_at, executions.c.position))

    async def tree(self, top: str) -> list[Record]:
        """An execution and everything below it, parents before children, siblings in order, with subtree sums."""
        return summed(await self._all(tree_query(top)), top)

    async def subtree_totals(self, tops: Sequence[str]) -> Mapping[str, Record]:
        """The usage of each execution and its subtree, open ones included; by one query."""
        return {row["id"]: row for row in await self._all(select(_totals).where(_totals.c.id.in_(tops)))}

    async def roots(self, limit: int, only_open: bool = False) -> list[Record]:
        """Top-level executions, newest first, with the sums of their trees."""
        query = select(executions)
        if only_open:  # few executions are open, and many are top-level
            query = query.where(executions.c.status.in_(_OPEN), unindexed(executions.c.parent_execution_id).is_(None))
        else:
            query = query.where(executions.c.parent_execution_id.is_(None))
        rows = await self._all(query.order_by(executions.c.id.desc()).limit(limit))
        sums = await self.overview.sums([row["id"] for row in rows])
        return [
            {**row, **{f"subtree_{name}": sums[row["id"]][name] for name in ("tokens", "cost_usd", "executions")}}
            for row in rows
        ]

    async def listing(self, wanted: ListFilter) -> list[Record]:
        """Executions, newest first."""
        return await self._all(listed(wanted))

    async def typical_seconds(self, agent: str, principal: str | None = None) -> float | None:
        """The usual duration of an agent, for all principals or one: the median of its last completed executions."""
        rows = await self._all(recently_completed(agent, principal))
        lengths = [(moment(row["finished_at"]) - moment(row["started_at"])).total_seconds() for row in rows]
        return median(lengths) if lengths else None

    async def open_owners(self, top: str | None = None) -> Mapping[str, int]:
        """The processes that own open executions (of one tree, or of all), and how many each owns."""
        query = select(executions.c.owner, func.count().label("n")).group_by(executions.c.owner)
        query = query.where(executions.c.finished_at.is_(None), executions.c.owner.is_not(None))
        if top is not None:
            root = select(executions.c.root_execution_id).where(executions.c.id == top).scalar_subquery()
            query = query.where(executions.c.root_execution_id == root)
        return {row["owner"]: row["n"] for row in await self._all(query)}

    async def tree_rows(self, root: str) -> list[Record]:
        """Every execution of a tree, older ones first."""
        return await self._all(select(executions).where(executions.c.root_execution_id == root).order_by(executions.c.id))

    async def snapshot(self, config_hash: str) -> str | None:
        """The text of a configuration that executions ran with."""
        found = await self._all(select(config_snapshots.c.body).where(config_snapshots.c.hash == config_hash))
        return found[0]["body"] if found else None

    # -- inside an execution -------------------------------------------------------------------------------------------

    async def messages(self, execution: str) -> list[Record]:
        """The messages of a transcript, in order; tool results are with their calls."""
        query = select(messages).where(messages.c.execution_id == execution)
        return await self._all(query.order_by(messages.c.position))

    async def tool_calls(self, execution: str) -> list[Record]:
        """The tool calls of an execution, in order."""
        query = select(tool_calls).where(tool_calls.c.execution_id == execution)
        return await self._all(query.order_by(tool_calls.c.started_at, tool_calls.c.position))

    async def talk(self, top: str) -> tuple[list[Record], list[Record]]:
        """The messages and the tool calls of a subtree, each in the order of time."""
        said = select(messages).where(messages.c.execution_id.in_(select(below(top).c.id)))
        called = select(tool_calls).where(tool_calls.c.execution_id.in_(select(below(top).c.id)))
        return (
            await self._all(said.order_by(messages.c.created_at, messages.c.position)),
            await self._all(called.order_by(tool_calls.c.started_at, tool_calls.c.position)),
        )

    async def tool_call(self, execution: str, call: str) -> Record | None:
        """One tool call, by its row id or by the id the model gave it."""
        named = or_(tool_calls.c.id == call, tool_calls.c.call_id == call)
        found = await self._all(select(tool_calls).where(tool_calls.c.execution_id == execution, named))
        return found[0] if found else None

    async def calling(self, execution: str) -> list[str]:
        """The tools that an execution is waiting for."""
        query = select(tool_calls.c.tool).where(tool_calls.c.execution_id == execution, tool_calls.c.finished_at.is_(None))
        return [row["tool"] for row in await self._all(query.order_by(tool_calls.c.position))]

    async def loose_tool_calls(self, top: str, *, ended: bool = True) -> list[Record]:
        """Tool calls of a subtree without a result, with their places; of ended executions, or of all.

        `begun`: the call may have taken effect, because it was started, or a person was asked whether it may run again.
        """
        names = ("parent_execution_id", "root_execution_id", "session_id", "agent", "attempt")
        place = [executions.c[name] for name in names]
        begun = or_(tool_calls.c.status == "started", asked_to_repeat(tool_calls.c.id)).label("begun")
        query = select(tool_calls, *place, begun).join(executions, executions.c.id == tool_calls.c.execution_id)
        query = query.where(tool_calls.c.status.in_(OPEN_CALLS), executions.c.id.in_(select(below(top).c.id)))
        return await self._all(query.where(executions.c.finished_at.is_not(None)) if ended else query)

    async def unknown_outcomes(self, top: str) -> list[Record]:
        """The tool calls of a subtree whose outcome is unknown."""
        query = select(tool_calls).where(
            tool_calls.c.status == "unknown", tool_calls.c.execution_id.in_(select(below(top).c.id))
        )
        return await self._all(query.order_by(tool_calls.c.id))

    async def calls_like(self, roots: Sequence[str], handles: Sequence[str], least: int) -> set[str]:
        """The ids of calls in these trees that equal a handle, or begin with a handle of at least that length."""
        begins = [func.substr(tool_calls.c.call_id, 1, len(each)) == each for each in handles if len(each) >= least]
        query = select(tool_calls.c.call_id).join(executions, executions.c.id == tool_calls.c.execution_id)
        query = query.where(executions.c.root_execution_id.in_(roots), or_(tool_calls.c.call_id.in_(handles), *begins))
        return {row["call_id"] for row in await self._all(query.distinct())}

    async def evidence(self, call: str) -> Record | None:
        """One tool call of any execution, by its row id or by the id the model gave it; None unless exactly one matches."""
        handle = and_(ending(tool_calls.c.call_id) == call[-SHORT:], tool_calls.c.call_id == call)
        named = or_(tool_calls.c.id == call, handle)
        query = select(tool_calls, executions.c.agent).join(executions, executions.c.id == tool_calls.c.execution_id)
        found = await self._all(query.where(named).limit(2))
        return found[0] if len(found) == 1 else None

    async def pricing(self, top: str) -> Mapping[str, frozenset[str]]:
        """The kinds of pricing of a subtree's model calls, by execution: `rehearsed`, `priced` …"""
        query = select(model_calls.c.execution_id, pricing_kind()).distinct()
        found: dict[str, frozenset[str]] = {}
        for row in await self._all(query.where(model_calls.c.execution_id.in_(select(below(top).c.id)))):
            found[row["execution_id"]] = found.get(row["execution_id"], frozenset()) | {row["pricing"]}
        return found

    async def model_calls(self, execution: str) -> list[Record]:
        """The model calls of an execution, in order."""
        query = select(model_calls).where(model_calls.c.execution_id == execution)
        return await self._all(query.order_by(model_calls.c.turn))

    async def model_calls_below(self, top: str) -> list[Record]:
        """The model calls of a subtree."""
        query = select(model_calls).where(model_calls.c.execution_id.in_(select(below(top).c.id)))
        return await self._all(query.order_by(model_calls.c.id))

    async def events(self, root: str, after: int = 0, limit: int = 10_000) -> list[Record]:
        """The events of a tree after a sequence number."""
        query = select(events_table).where(events_table.c.root_execution_id == root, events_table.c.seq > after)
        return await self._all(query.order_by(events_table.c.seq).limit(limit))

    async def notices(self, top: str) -> list[Record]:
        """The upstream events of a subtree."""
        query = select(events_table).where(
            events_table.c.root_execution_id.in_(select(executions.c.root_execution_id).where(executions.c.id == top)),
            events_table.c.execution_id.in_(select(below(top).c.id)),
            literal_column("events.type >= 'upstream.' AND events.type < 'upstream/'"),  # in the words of its index
        )
        return await self._all(query.order_by(events_table.c.seq))

    async def stages(self, top: str) -> Mapping[str, str]:
        """The payload of the newest stage event of each chain in a subtree, by chain."""
        query = select(events_table.c.execution_id, events_table.c.payload).where(
            events_table.c.root_execution_id.in_(select(executions.c.root_execution_id).where(executions.c.id == top)),
            events_table.c.execution_id.in_(select(below(top).c.id)),
            tells_stage(),
        )
        return {row["execution_id"]: row["payload"] for row in await self._all(query.order_by(events_table.c.seq))}

    async def last_event(self, root: str, besides: str = "") -> Record | None:
        """The newest event of a tree, except one type, with its agent."""
        query = (
            select(events_table, executions.c.agent)
            .join(executions, executions.c.id == events_table.c.execution_id)
            .where(events_table.c.root_execution_id == root, events_table.c.type != besides)
        )
        found = await self._all(query.order_by(events_table.c.seq.desc()).limit(1))
        return found[0] if found else None

    # -- requests of other processes -----------------------------------------------------------------------------------

    async def cancel_wishes(self, owner: str) -> list[Record]:
        """Open executions of `owner` that were asked to stop."""
        query = select(executions.c.id, executions.c.cancelled_by, executions.c.cancel_reason).where(
            and_(
                executions.c.owner == owner,
                executions.c.finished_at.is_(None),
                executions.c.cancel_requested_at.is_not(None),
            )
        )
        return await self._all(query)

    async def waiting_deliveries(self, owner: str) -> list[Record]:
        """Messages and requests waiting in inboxes of `owner`; results come from the children themselves."""
        query = (
            select(deliveries)
            .join(executions, executions.c.id == deliveries.c.execution_id)
            .where(
                executions.c.owner == owner,
                executions.c.finished_at.is_(None),
                deliveries.c.consumed_at.is_(None),
                deliveries.c.kind != "result",
            )
        )
        return await self._all(query.order_by(deliveries.c.created_at))

    async def unread(self, execution: str) -> list[Record]:
        """The unread deliveries of an inbox."""
        query = select(deliveries).where(deliveries.c.execution_id == execution, deliveries.c.consumed_at.is_(None))
        return await self._all(query.order_by(deliveries.c.created_at))

    async def deliveries(self, execution: str) -> list[Record]:
        """All deliveries of an inbox, read or not."""
        query = select(deliveries).where(deliveries.c.execution_id == execution)
        return await self._all(query.order_by(deliveries.c.created_at))

    async def asked_to_wrap_up(self, execution: str) -> bool:
        """Whether an execution was asked to wrap up."""
        query = select(deliveries.c.id).where(deliveries.c.execution_id == execution, deliveries.c.kind == "wrap_up")
        return bool(await self._all(query.limit(1)))
