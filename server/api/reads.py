"""What can be looked at: executions and what is in them, approvals, errors, usage, SQL and comparisons.

Owns who may look: an execution that is not the caller's is as unknown as one that never existed. Must not know: how an
answer is made; that is the views'.
"""

from __future__ import annotations

import time
from functools import partial
from importlib.metadata import version
from typing import Literal
from urllib.parse import quote

import anyio.to_thread
from starlette.responses import Response

from db.ids import SHORT
from db.query.query import ROWS
from server.api.configured import can_start_demo
from server.api.endpoint import JSON, PAGE, ApiCall
from server.api.requests import ListQuery, PlanView, SessionState
from server.api.sessions import until_over
from server.api.sql import QueryTable, SqlSchema, exact, schema_of
from server.api.streams import EventStreamAnswer, StreamOrder
from server.api.topic import Scope
from server.export import bundle_of, json_text
from server.problem import ApiRefused
from server.views.answers import ApprovalList, Counts, ExecutionDetail, ExecutionPage, ExecutionTree
from server.views.figures import TreeComparison, UsageReport
from server.views.filters import ErrorFilter, ExecutionFilter
from server.views.records import ArtifactList, ErrorPage, Timeline, TranscriptCall, TranscriptPage
from server.web.page_file import page_text

MOST_SQL_BYTES = 5_000_000
LAST_EVENT = "last-event-id"


async def session(call: ApiCall) -> SessionState:
    who, services = call.caller.who, call.dispatcher.services
    return SessionState(
        principal=who.principal,
        local=who.principal is None,
        reads_all=who.reads_all,
        demo=can_start_demo(call),
        version=version("outrider"),
        database=services.database.path.name,
    )


async def counts(call: ApiCall) -> Counts:
    return await call.views.counts(call.caller.who.principal)


async def executions(call: ApiCall) -> ExecutionPage:
    asked: ListQuery = call.query
    wanted = ExecutionFilter(
        principal=call.caller.who.principal,
        group=asked.group,
        status=asked.status,
        agent=asked.agent,
        q=asked.q,
        every_level=asked.all,
        cursor=asked.cursor,
        limit=asked.limit,
    )
    return await call.views.lines(wanted)


async def execution(call: ApiCall) -> ExecutionDetail:
    row = await call.row()
    return await call.views.execution(row["id"])


async def tree(call: ApiCall) -> ExecutionTree:
    row = await call.row()
    return await call.views.tree(row["id"], call.query.after, call.query.first)


async def timeline(call: ApiCall) -> Timeline:
    row = await call.row()
    return await call.views.timeline(row["id"], call.query.after or 0)


async def transcript(call: ApiCall) -> TranscriptPage:
    row = await call.row()
    return await call.views.transcript(row["id"], call.query.start)


async def plan(call: ApiCall) -> PlanView:
    row = await call.row()
    found = await call.views.plan(row["id"])
    if found is None:
        raise ApiRefused(404, "it has neither a plan nor tasks", "agents with `strategy: plan` or `iterate` have them")
    return PlanView(**found)


async def artifacts(call: ApiCall) -> ArtifactList:
    row = await call.row()
    return await call.views.artifacts(row["id"])


async def errors_of(call: ApiCall) -> ErrorPage:
    row = await call.row()
    return await call.views.errors(ErrorFilter(call.caller.who.principal, execution=row["id"], limit=200))


async def bundle(call: ApiCall) -> Response:
    return await _exported(call, "json")


async def page(call: ApiCall) -> Response:
    return await _exported(call, "html")


async def _exported(call: ApiCall, ending: Literal["json", "html"]) -> Response:
    """A file, as `outrider export` writes it."""
    row = await call.row()
    database, whole = call.dispatcher.services.database, row["parent_execution_id"] is None
    recorded = ending == "json" and whole and row["finished_at"] is not None
    content = await bundle_of(database.reads, database.path, row["id"], recorded=recorded)
    text = json_text if ending == "json" else page_text
    body = await anyio.to_thread.run_sync(lambda: "".join(text(content)).encode("utf-8", "surrogatepass"))
    name = f"outrider-{row['agent']}-{row['id'][-SHORT:]}.{ending}"
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return Response(body, media_type=JSON if ending == "json" else PAGE, headers=headers)


async def tool_call(call: ApiCall) -> TranscriptCall:
    found = await call.views.tool_call(call.request.path_params["id"])
    if found is None or await call.caller.row(found[0]) is None:
        raise ApiRefused(404, "there is no such tool call", "the transcript of its execution has the ids", "not_found")
    return found[1]


async def approvals(call: ApiCall) -> ApprovalList:
    return ApprovalList(approvals=await call.views.approvals(principal=call.caller.who.principal))


async def errors(call: ApiCall) -> ErrorPage:
    asked = call.query
    execution_id = (await call.row(asked.execution))["id"] if asked.execution is not None else None
    wanted = ErrorFilter(
        principal=call.caller.who.principal,
        execution=execution_id,
        kind=asked.type,
        agent=asked.agent,
        severity=asked.severity,
        only_open=asked.open,
        cursor=asked.cursor,
        limit=asked.limit,
    )
    return await call.views.errors(wanted)


async def usage(call: ApiCall) -> UsageReport:
    return await call.views.usage(call.query.days, call.caller.who.principal)


async def compare(call: ApiCall) -> TreeComparison:
    one, other = await call.row(call.query.a), await call.row(call.query.b)
    return await call.views.compare(one["id"], other["id"])


# -- SQL ---------------------------------------------------------------------------------------------------------------


async def schema(call: ApiCall) -> SqlSchema:
    return await schema_of(call.dispatcher.services.database.path)


async def sql(call: ApiCall) -> QueryTable:
    began = time.perf_counter()
    asked = call.body if call.body is not None else call.query
    found = await call.caller.query(asked.sql, rows=ROWS, size=MOST_SQL_BYTES)
    return QueryTable(
        columns=found["names"],
        rows=exact(found["rows"]),
        truncated=found["truncated"],
        seconds=round(time.perf_counter() - began, 3),
    )


# -- streams -----------------------------------------------------------------------------------------------------------


def _after(call: ApiCall) -> int | None:
    """The number after which the listener goes on: that of its last event, else the one it names."""
    last = call.request.headers.get(LAST_EVENT, "")
    if last.isascii() and last.isdigit() and len(last) < 19:
        return int(last)
    after: int | None = call.query.after
    return after


async def events(call: ApiCall) -> EventStreamAnswer:
    row = await call.row()
    stream, top, root = call.dispatcher.services.database.reads.stream, row["id"], row["root_execution_id"]
    ended = await stream.newest_of(root) if row["finished_at"] is not None else None
    newest = ended if ended is not None else await stream.newest()
    return _followed(call, StreamOrder(Scope(root, top), min(_after(call) or 0, newest), ended))


async def all_events(call: ApiCall) -> EventStreamAnswer:
    newest = await call.dispatcher.services.database.reads.stream.newest()
    after = _after(call)
    scope = Scope(principal=call.caller.who.principal)
    return _followed(call, StreamOrder(scope, newest if after is None else min(after, newest)))


def _followed(call: ApiCall, order: StreamOrder) -> EventStreamAnswer:
    return EventStreamAnswer(call.context.feed, order, partial(until_over, call))
