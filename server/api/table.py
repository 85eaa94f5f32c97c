"""The table of the API: every request with its models, from which the routes and the OpenAPI document are made."""

from __future__ import annotations

from server.api import actions, configured, reads, sessions
from server.api import requests as r
from server.api.endpoint import PAGE, ApiEndpoint
from server.api.sql import QueryTable, SqlSchema
from server.identity import READ_ALL
from server.views.answers import ApprovalList, Counts, ExecutionDetail, ExecutionPage, ExecutionTree
from server.views.figures import TreeComparison, UsageReport
from server.views.records import ArtifactList, Bundle, ErrorPage, Timeline, TranscriptCall, TranscriptPage

STREAM = "text/event-stream"
ONE = "/executions/{id}"

SESSION = (
    ApiEndpoint("GET", "/session", "Who asks, and what this server is", reads.session, r.SessionState),
    ApiEndpoint(
        "POST",
        "/session",
        "Exchange a token for a cookie",
        sessions.enter,
        status=204,
        body=r.TokenBody,
        is_open=True,
        refusals=(401,),
    ),
    ApiEndpoint("DELETE", "/session", "End the session of the cookie", sessions.leave, status=204),
)

EXECUTIONS = (
    ApiEndpoint("GET", "/counts", "Top-level executions by group, and open questions", reads.counts, Counts),
    ApiEndpoint("GET", "/executions", "A page of executions", reads.executions, ExecutionPage, query=r.ListQuery),
    ApiEndpoint("POST", "/executions", "Start an agent or a chain", actions.start, r.StartAnswer, 201, r.StartBody),
    ApiEndpoint("GET", ONE, "One execution with its texts", reads.execution, ExecutionDetail),
    ApiEndpoint("GET", f"{ONE}/tree", "An execution and everything below it", reads.tree, ExecutionTree, query=r.TreeQuery),
    ApiEndpoint(
        "GET", f"{ONE}/timeline", "Where the time of one execution went", reads.timeline, Timeline, query=r.AfterQuery
    ),
    ApiEndpoint(
        "GET", f"{ONE}/transcript", "What its model was told and said", reads.transcript, TranscriptPage, query=r.FromQuery
    ),
    ApiEndpoint("GET", f"{ONE}/plan", "Its plan, or the tasks of its iteration", reads.plan, r.PlanView),
    ApiEndpoint("GET", f"{ONE}/artifacts", "The artifacts of its result", reads.artifacts, ArtifactList),
    ApiEndpoint("GET", f"{ONE}/errors", "The errors that were recorded for it", reads.errors_of, ErrorPage),
    ApiEndpoint(
        "GET", f"{ONE}/bundle", "It and everything below it, as `outrider export --json` writes it", reads.bundle, Bundle
    ),
    ApiEndpoint(
        "GET", f"{ONE}/page", "The same as one page, as `outrider export --html` writes it", reads.page, answers=PAGE
    ),
    ApiEndpoint(
        "GET",
        f"{ONE}/events",
        "The events of an execution and everything below it, as they happen",
        reads.events,
        query=r.AfterQuery,
        answers=STREAM,
    ),
    ApiEndpoint(
        "GET",
        "/events",
        "The events of every tree the caller may see, as they happen",
        reads.all_events,
        query=r.AfterQuery,
        answers=STREAM,
    ),
    ApiEndpoint("GET", "/tool_calls/{id}", "One tool call with its whole result", reads.tool_call, TranscriptCall),
)

ACTIONS = (
    ApiEndpoint(
        "GET",
        f"{ONE}/consequences",
        "What an action will do, before it is done",
        actions.consequences,
        r.Consequences,
        query=r.ActionQuery,
    ),
    ApiEndpoint(
        "POST", f"{ONE}/cancel", "Cancel it and everything below it", actions.cancel, r.ActionAnswer, body=r.CancelBody
    ),
    ApiEndpoint(
        "POST", f"{ONE}/wrap-up", "Ask it to answer with what it has", actions.wrap_up, r.ActionAnswer, body=r.NoBody
    ),
    ApiEndpoint(
        "POST",
        f"{ONE}/message",
        "Say something to it; one that has ended is continued by a new execution",
        actions.message,
        r.ActionAnswer,
        body=r.MessageBody,
    ),
    ApiEndpoint(
        "POST",
        f"{ONE}/resume",
        "Resume an interrupted tree, or continue an execution that has ended",
        actions.resume,
        r.ActionAnswer,
        body=r.ResumeBody,
    ),
    ApiEndpoint(
        "POST",
        f"{ONE}/rerun",
        "Run its tree once more from an execution on, as a new tree; what was before is kept",
        actions.rerun,
        r.ActionAnswer,
        body=r.RerunBody,
    ),
    ApiEndpoint("GET", "/approvals", "The calls that wait for a person", reads.approvals, ApprovalList),
    ApiEndpoint("POST", "/approvals/{id}/approve", "Allow a call", actions.approve, r.DecisionAnswer, body=r.DecisionBody),
    ApiEndpoint("POST", "/approvals/{id}/deny", "Do not allow a call", actions.deny, r.DecisionAnswer, body=r.DecisionBody),
    ApiEndpoint("POST", "/demo", "Start the packaged investigation", actions.start_demo, r.StartAnswer, 201, r.NoBody),
)

ABOUT = (
    ApiEndpoint("GET", "/agents", "What can be started", configured.agents, configured.DeclaredAgents),
    ApiEndpoint("GET", "/upstreams", "The upstream servers and their tools", configured.upstreams, configured.UpstreamList),
    ApiEndpoint(
        "GET",
        "/configuration",
        "Every value of the configuration, with its line",
        configured.configuration,
        configured.EffectiveConfiguration,
    ),
    ApiEndpoint("GET", "/usage", "What was used, by agent, model and day", reads.usage, UsageReport, query=r.DaysQuery),
    ApiEndpoint("GET", "/errors", "Recorded errors, last seen first", reads.errors, ErrorPage, query=r.ErrorQuery),
    ApiEndpoint("GET", "/sql/schema", "Tables, views and saved queries", reads.schema, SqlSchema, needs=READ_ALL),
    ApiEndpoint("POST", "/sql", "Ask the database", reads.sql, QueryTable, body=r.SqlBody, needs=READ_ALL),
    ApiEndpoint("GET", "/compare", "Two trees side by side", reads.compare, TreeComparison, query=r.PairQuery),
)

ENDPOINTS = (*SESSION, *EXECUTIONS, *ACTIONS, *ABOUT)
"""Every request, in the order of the reference page."""
