"""Lists as they are answered: groups, order, pages, searches, counts; and usage and recorded errors."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from db.clock import stamp
from db.store.engine import sqlite_library
from runner.service.order import Order
from server.views import lists
from server.views.filters import ErrorFilter, ExecutionFilter, Group
from server.views.views import Views
from tests.server.views.test_trees import CONFIG, DEEP, views_of
from tests.support.gated import DELETE, asked, deleting
from tests.support.models import Turn, fail, gate, hang, say
from tests.support.requirement import requirement
from tests.support.service import Bench, bench


async def pages(views: Views, wanted: ExecutionFilter) -> list[str]:
    """The ids of all pages of a list."""
    found = list[str]()
    while True:
        page = await views.lines(wanted)
        found += [line.id for line in page.executions]
        if page.next_cursor is None:
            return found
        wanted = replace(wanted, cursor=page.next_cursor)


def changed(opened: Bench, sql: str, *parameters: Any) -> None:
    """Change rows by hand."""
    connection = sqlite_library().connect(str(opened.database), isolation_level=None)
    connection.execute(sql, parameters)
    connection.close()


GROUPS: tuple[Group, ...] = ("attention", "running", "finished")


@requirement("S2-DA-1")
async def test_an_execution_with_children_is_told_from_one_without(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, DEEP) as opened:
        alone, leading = await opened.run("Worker", "a"), await opened.run("Lead", "b\nc")
        views = views_of(opened)
        page = await views.lines(ExecutionFilter())
        every = await views.lines(ExecutionFilter(every_level=True))

    assert [(line.id, line.subtree_executions, line.subtree_ended) for line in page.executions] == [
        (leading.id, 3, 3),
        (alone.id, 1, 1),
    ]
    first = page.executions[0]
    assert (first.task, first.status, first.attention, first.activity) == ("b", "completed", None, "")
    assert first.subtree_tokens == 15 * 7
    assert first.subtree_cost_usd > page.executions[1].subtree_cost_usd
    assert [(line.agent, line.subtree_executions) for line in every.executions] == [
        ("Worker", 1),
        ("Middle", 2),
        ("Lead", 3),
        ("Worker", 1),
    ]
    assert every.executions[0].parent_execution_id == every.executions[1].id


async def test_groups_are_disjoint_and_what_needs_a_person_comes_first(tmp_path: Path) -> None:
    held = anyio.Event()
    tools = deleting()
    scripts = {"Lead": [DELETE, say("gone")], "Middle": [gate(held, say("fine"))], "Worker": worker}
    async with bench(tmp_path, CONFIG, scripts, tools.for_agents("Lead")) as opened:
        completed = await opened.run("Worker", "well")
        failed = await opened.run("Worker", "badly")
        older = await opened.run("Worker", "badly")
        late = stamp(datetime.now(UTC) - timedelta(hours=lists.ATTENTION_HOURS, minutes=1))
        changed(opened, "update executions set finished_at = ? where id = ?", late, older.id)
        running = await opened.dispatcher.start(Order("Middle", "runs"))
        left = await opened.dispatcher.start(Order("Middle", "is left"))
        asking = await opened.dispatcher.start(Order("Lead", "asks"))
        await asked(opened)
        changed(opened, "update executions set owner = '1-dead' where id = ?", left.id)
        views = views_of(opened)
        groups = {group: await pages(views, ExecutionFilter(group=group)) for group in GROUPS}
        attention = (await views.lines(ExecutionFilter(group="attention"))).executions
        small = {group: await pages(views, ExecutionFilter(group=group, limit=1)) for group in GROUPS}
        counts = await views.counts()
        changed(opened, "update executions set owner = ? where id = ?", opened.dispatcher.services.database.owner, left.id)
        held.set()
        await opened.dispatcher.cancel(asking.id, "test", "over")

    assert groups == {
        "attention": [asking.id, left.id, failed.id],
        "running": [running.id],
        "finished": [older.id, completed.id],
    }
    assert small == groups
    assert [line.attention for line in attention] == ["approval", "interrupted", "failed"]
    assert attention[0].activity == "waiting for approval of local.delete"
    assert (attention[0].approvals, attention[1].owner_gone) == (1, True)
    assert (counts.attention, counts.running, counts.finished, counts.approvals) == (3, 1, 2, 1)


def worker(request: Any) -> Turn:
    """Work that fails when its task says so."""
    said = request.messages[0].content[0]["text"]
    return fail("failed", "no luck", recoverable=False) if "badly" in said else say("worked")


async def test_a_search_finds_tasks_agents_and_ids_and_says_how_far_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path, CONFIG, {"Worker": worker}) as opened:
        ids = [(await opened.run("Worker", f"count 100% of the {what}")).id for what in ("Apples", "pears", "plums")]
        views = views_of(opened)

        assert await pages(views, ExecutionFilter(q="apples")) == [ids[0]]
        assert await pages(views, ExecutionFilter(q="wORK")) == ids[::-1]
        assert await pages(views, ExecutionFilter(q="100%")) == ids[::-1]
        assert await pages(views, ExecutionFilter(q="1%0")) == []
        assert await pages(views, ExecutionFilter(q=ids[1][-6:])) == [ids[1]]
        assert await pages(views, ExecutionFilter(q=ids[2], group="finished")) == [ids[2]]
        assert await pages(views, ExecutionFilter(q=ids[2], group="attention")) == []
        assert await pages(views, ExecutionFilter(agent="Worker", status="completed", q="plums")) == [ids[2]]

        monkeypatch.setattr(lists, "LOOKED_AT", 2)
        page = await views.lines(ExecutionFilter(q="apples"))
        assert (page.executions, page.searched_to, page.next_cursor) == ([], ids[1], ids[1])
        assert await pages(views, ExecutionFilter(q="apples")) == [ids[0]]


async def test_a_search_in_what_ended_badly_goes_on_where_it_stopped_looking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path, CONFIG, {"Worker": worker}) as opened:
        ids = [(await opened.run("Worker", f"count {what} badly")).id for what in ("apples", "pears", "plums")]
        views, wanted = views_of(opened), ExecutionFilter(group="attention", q="apples")
        monkeypatch.setattr(lists, "LOOKED_AT", 2)
        first = await views.lines(wanted)

        assert (first.executions, first.searched_to) == ([], ids[1])
        assert await pages(views, wanted) == [ids[0]]


async def test_a_principal_is_answered_its_own_executions_only(tmp_path: Path) -> None:
    scripts = {"Worker": worker}
    async with bench(tmp_path, CONFIG, scripts) as opened:
        ada = await opened.run("Worker", "badly", principal="ada")
        await opened.run("Worker", "badly", principal="grace")
        grace = await opened.run("Worker", "well", principal="grace")
        views = views_of(opened)

        assert await pages(views, ExecutionFilter(principal="ada")) == [ada.id]
        assert await pages(views, ExecutionFilter(principal="ada", group="attention")) == [ada.id]
        assert await pages(views, ExecutionFilter(principal="ada", q=grace.id[-6:])) == []
        assert await pages(views, ExecutionFilter(principal="grace", group="finished")) == [grace.id]
        counts = await views.counts("grace")
        assert (counts.attention, counts.running, counts.finished) == (1, 0, 1)
        usage = {who: (await views.usage(1, who)).total for who in ("ada", "grace", None)}
        assert [each.executions for each in usage.values()] == [1, 2, 3]
        assert [each.failed for each in usage.values()] == [1, 1, 2]
        of_ada = (await views.errors(ErrorFilter(principal="ada"))).errors
        assert all(error["execution_id"] == ada.id for error in of_ada)


async def test_usage_is_summed_by_agent_model_and_day_with_what_is_still_running(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {**DEEP, "Middle": [hang()]}) as opened:
        await opened.run("Worker")
        started = await opened.dispatcher.start(Order("Lead"))
        with anyio.fail_after(10):
            await opened.model.started("Middle")
            await opened.model.started("Lead", 2)
        report = await views_of(opened).usage(7)
        await opened.dispatcher.cancel(started.id, "test", "over")
        [sums] = opened.sql("select sum(input_tokens) as tokens, sum(cost_usd) as cost from executions")

    agents = {row.name: row for row in report.by_agent}
    assert {name: (row.executions, row.model_calls) for name, row in agents.items()}["Worker"] == (1, 1)
    assert agents["Lead"].model_calls >= 1
    assert report.total.executions == 3
    assert report.total.input_tokens <= sums["tokens"]
    assert report.total.cost_usd == pytest.approx(sum(row.cost_usd for row in report.by_agent))
    assert [row.name for row in report.by_day] == [datetime.now(UTC).date().isoformat()]
    assert len(report.by_model) == 1
    assert report.by_model[0].pricing == ["priced"]
    assert report.since == (datetime.now(UTC).date() - timedelta(days=6)).isoformat()


async def test_recorded_errors_come_page_by_page_last_seen_first(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Worker": [fail("failed", "no luck", recoverable=False)]}) as opened:
        await opened.run("Worker", "one")
        await opened.run("Worker", "two")
        await opened.dispatcher.services.database.writer.flush()  # a record is written beside the end, not with it
        views = views_of(opened)
        every = (await views.errors(ErrorFilter())).errors
        first = await views.errors(ErrorFilter(limit=1))
        none = await views.errors(ErrorFilter(kind="nothing"))
        agents = await views.errors(ErrorFilter(agent="Worker", only_open=True))

    assert len(every) == 1
    assert (every[0]["recurrence_count"], every[0]["context"]["agent"]) == (2, "Worker")
    assert (first.errors, first.next_cursor) == (every, None)
    assert (none.errors, agents.errors) == ([], every)
