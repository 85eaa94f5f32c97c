"""The requests of the pages: what each asks of the API first, and what it asks when a person looks further.

Owns the requests and what is drawn for them. Must not know: how the API answers. Invariant: an answer that is no success
ends the run, so that a figure is that of an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.big.population import AGENTS
from bench.big.questions import NOWHERE, Ask, Draws, Question
from db.ids import SHORT

if TYPE_CHECKING:
    from db.rows.reads import Reads

Drawn = Callable[[Draws], str]
LISTED = "limit=50"
"""As the page of executions asks."""
ACTIONS = ("cancel", "wrap_up", "resume", "rerun")


def _get(path: Drawn, also: int = 200) -> Ask:
    async def ask(_: Reads, draws: Draws) -> Any:
        answer = await draws.api.get(f"/api{path(draws)}")
        if answer.status_code != also:
            answer.raise_for_status()
        return answer.content

    return ask


def _list(words: str, drawn: Drawn = lambda _: "") -> Ask:
    return _get(lambda draws: f"/executions?{LISTED}&{words}{drawn(draws)}")


def _one(what: str, drawn: Drawn = Draws.execution) -> Ask:
    return _get(lambda draws: f"/executions/{drawn(draws)}{what}")


def _plan(draws: Draws) -> str:
    return f"/executions/{draws.execution()}/plan"


def _agent(draws: Draws) -> str:
    return draws.dice.choice(AGENTS)


def _usage(days: int) -> Ask:
    return _get(lambda _: f"/usage?days={days}")


async def _sql(_: Reads, draws: Draws) -> Any:
    answer = await draws.api.post(
        "/api/sql", json={"sql": f"select * from execution_tree where id = '{draws.execution()}'"}
    )
    answer.raise_for_status()
    return answer.content


async def _pair(_: Reads, draws: Draws) -> Any:
    answer = await draws.api.get(f"/api/compare?a={draws.large()}&b={draws.large()}")
    answer.raise_for_status()
    return answer.content


LISTS = (
    Question("api-session", "`/session`", _get(lambda _: "/session")),
    Question("api-counts", "`/counts`", _get(lambda _: "/counts")),
    Question("api-list", "`/executions`", _list("")),
    Question("api-list-attention", "`/executions`, what needs attention", _list("group=attention")),
    Question("api-list-running", "`/executions`, what runs", _list("group=running")),
    Question("api-list-finished", "`/executions`, what is finished", _list("group=finished")),
    Question(
        "api-list-deep", "`/executions`, a deep page of what is finished", _list("group=finished&cursor=", Draws.execution)
    ),
    Question("api-list-200", "`/executions`, 200 of any level", _get(lambda _: "/executions?limit=200&all=true")),
    Question("api-list-failed", "`/executions`, finished as failed", _list("group=finished&status=failed")),
    Question("api-list-blocked", "`/executions`, finished as blocked", _list("group=finished&status=blocked")),
    Question("api-list-cancelled", "`/executions`, cancelled, of any level", _list("all=true&status=cancelled")),
    Question("api-list-agent", "`/executions` of an agent", _list("agent=", _agent)),
    Question("api-list-agent-finished", "`/executions` of an agent, finished", _list("group=finished&agent=", _agent)),
    Question(
        "api-list-agent-failed", "`/executions` of an agent, failed", _list("group=finished&status=failed&agent=", _agent)
    ),
    Question("api-list-no-agent", "`/executions` of an agent that never ran", _list("group=finished&agent=no-such-agent")),
    Question("api-search", "`/executions`, a search that finds nothing", _list(f"q={NOWHERE}")),
    Question("api-search-finished", "the same, in what is finished", _list(f"group=finished&q={NOWHERE}")),
    Question("api-search-every", "the same, in executions of any level", _list(f"all=true&q={NOWHERE}")),
    Question("api-search-agent", "the same, of an agent", _list(f"q={NOWHERE}&agent=", _agent)),
    Question("api-search-id", "`/executions`, a search for an id", _list("q=", lambda draws: draws.execution()[-SHORT:])),
)
ONE = (
    Question("api-one", "`/executions/{id}`", _one("")),
    Question("api-one-large", "`/executions/{id}`, the top of 1,000", _one("", Draws.large)),
    Question("api-tree", "`…/tree` of any execution", _one("/tree")),
    Question("api-tree-large", "`…/tree` of 1,000 executions", _one("/tree", Draws.large)),
    Question("api-tree-first", "`…/tree` of 10,000 executions, the first 1,000", _one("/tree?first=1000", Draws.huge)),
    Question("api-tree-huge", "`…/tree` of 10,000 executions", _one("/tree", Draws.huge)),
    Question("api-changes-huge", "what changed in a tree of 10,000", _get(lambda draws: _changes(draws, draws.huge()))),
    Question("api-timeline", "`…/timeline` of any execution", _one("/timeline")),
    Question("api-timeline-long", "`…/timeline` of 100 turns", _one("/timeline", Draws.long)),
    Question("api-transcript", "`…/transcript` of any execution", _one("/transcript")),
    Question("api-transcript-long", "`…/transcript` of 100 turns", _one("/transcript", Draws.long)),
    Question("api-plan", "`…/plan` of an execution without one", _get(_plan, also=404)),
    Question("api-artifacts", "`…/artifacts`", _one("/artifacts")),
    Question("api-errors-of", "`…/errors`", _one("/errors")),
    Question("api-consequences", "`…/consequences` of cancelling 10,000", _one("/consequences?action=cancel", Draws.huge)),
    Question("api-bundle", "`…/bundle` of any execution", _one("/bundle")),
    Question("api-page", "`…/page` of any execution", _one("/page")),
    Question("api-bundle-large", "`…/bundle` of 1,000 executions", _one("/bundle", Draws.large)),
    Question("api-call", "`/tool_calls/{id}`", _get(lambda draws: f"/tool_calls/{draws.tool_call()}")),
    Question("api-compare", "`/compare` of two trees of 1,000", _pair),
)
ABOUT = (
    Question("api-approvals", "`/approvals`", _get(lambda _: "/approvals")),
    Question("api-errors", "`/errors`", _get(lambda _: "/errors")),
    Question(
        "api-errors-agent", "`/errors` of an agent, open", _get(lambda draws: f"/errors?open=true&agent={_agent(draws)}")
    ),
    Question("api-errors-none", "`/errors` of a type that is not there", _get(lambda _: "/errors?type=no_such_type")),
    *(Question(f"api-usage-{days}", f"`/usage` of {days} days", _usage(days)) for days in (7, 30, 90, 365)),
    Question("api-agents", "`/agents`", _get(lambda _: "/agents")),
    Question("api-upstreams", "`/upstreams`", _get(lambda _: "/upstreams")),
    Question("api-configuration", "`/configuration`", _get(lambda _: "/configuration")),
    Question("api-schema", "`/sql/schema`", _get(lambda _: "/sql/schema")),
    Question("api-sql", "`/sql`: one execution of `execution_tree`", _sql),
)


def _changes(draws: Draws, root: str) -> str:
    return f"/executions/{root}/tree?after={draws.last_sequence(root) - 20}"


REQUESTS = {question.key: question for question in (*LISTS, *ONE, *ABOUT)}
