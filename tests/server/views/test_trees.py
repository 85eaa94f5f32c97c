"""Trees as they are answered: depth, order, changes, refused dispatches, activity and times."""

from pathlib import Path

import anyio
import pytest

from bench.big.watch import Seen, watched
from db.clock import stamp
from db.errors import UnknownExecution
from db.ids import new_id
from db.rows.reads import Reads
from db.store.engine import sqlite_library
from db.tables import executions
from runner.service.order import Order
from server.views.answers import ExecutionNode, ExecutionTree
from server.views.times import stopped_at, time_use_of
from server.views.views import Views
from tests.support.gated import DELETE, YES, asked, decide, deleting
from tests.support.models import call, gate, say
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

CONFIG = """
defaults: {limits: {timeout: 60s}}
agents:
  Lead: {description: leads, sub_agents: [Middle, Worker], limits: {max_concurrent_agents: 1, on_limit: error}}
  Middle: {description: is between, sub_agents: [Worker]}
  Worker: {description: works}
"""


def views_of(opened: Bench) -> Views:
    """The views of a running service."""
    return Views(opened.dispatcher.services.database.reads, opened.database)


def dispatch(name: str, task: str = "work on it\nwith care") -> object:
    """A turn that dispatches an agent."""
    return call("dispatch_agent", name=name, task=task)


DEEP = {
    "Lead": [dispatch("Middle"), say("waiting"), say("# Answer\n\nall done")],
    "Middle": [dispatch("Worker"), say("waiting"), say("both done")],
    "Worker": [say("found it")],
}


def one(tree: ExecutionTree, agent: str) -> ExecutionNode:
    """The node of an agent."""
    [found] = [node for node in tree.nodes if node.agent == agent]
    return found


@requirement("S2-DA-2", "S2-DA-5")
async def test_a_tree_of_depth_three_is_answered_with_agent_task_and_state_of_each(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, DEEP) as opened:
        ended = await opened.run("Lead", "investigate\nthe outage")
        tree = await views_of(opened).tree(ended.id)

    shown = [(node.level, node.agent, node.task, node.status, node.parent_execution_id) for node in tree.nodes]
    assert shown == [
        (0, "Lead", "investigate", "completed", None),
        (1, "Middle", "work on it", "completed", tree.nodes[0].id),
        (2, "Worker", "work on it", "completed", tree.nodes[1].id),
    ]
    assert (tree.ended, tree.truncated, tree.executions) == (True, False, 3)
    assert tree.critical_path == [node.id for node in tree.nodes]
    assert one(tree, "Worker").summary == "found it"
    assert [node.activity for node in tree.nodes] == ["", "", ""]
    assert all(node.id.endswith(node.short_id) for node in tree.nodes)


async def test_a_part_of_a_tree_has_levels_from_its_own_top(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, DEEP) as opened:
        ended = await opened.run("Lead")
        views = views_of(opened)
        middle = one(await views.tree(ended.id), "Middle")
        part = await views.tree(middle.id)
        again = await views.tree(middle.id, 0)

    assert [(node.level, node.agent) for node in part.nodes] == [(0, "Middle"), (1, "Worker")]
    assert [(node.level, node.agent) for node in again.nodes] == [(0, "Middle"), (1, "Worker")]
    assert part.executions == again.executions == 2


async def test_the_executions_nearest_to_the_top_are_answered_first(tmp_path: Path) -> None:
    both = call("dispatch_agent", name="Middle", task="one") + call("dispatch_agent", name="Worker", task="two")
    config = CONFIG.replace("max_concurrent_agents: 1", "max_concurrent_agents: 2")
    scripts = {**DEEP, "Lead": [both, say("waiting"), say("done")]}
    async with bench(tmp_path, config, scripts) as opened:
        ended = await opened.run("Lead")
        views = views_of(opened)
        whole, first, more = [await views.tree(ended.id, first=most) for most in (None, 3, 9)]
        part = await views.tree(one(whole, "Middle").id, first=1)

    assert [(node.level, node.agent) for node in whole.nodes] == [(0, "Lead"), (1, "Middle"), (2, "Worker"), (1, "Worker")]
    assert [(node.level, node.agent) for node in first.nodes] == [(0, "Lead"), (1, "Middle"), (1, "Worker")]
    assert all(node in whole.nodes for node in first.nodes)
    assert {node.id for node in more.nodes} == {node.id for node in whole.nodes}
    assert [node.level for node in more.nodes] == [0, 1, 1, 2]
    assert (first.executions, first.truncated, first.cursor, first.ended) == (4, False, whole.cursor, True)
    assert ([node.level for node in part.nodes], part.executions) == ([0], 2)


async def test_only_what_changed_is_answered_after_an_event(tmp_path: Path) -> None:
    opened_gate = anyio.Event()
    scripts = {**DEEP, "Worker": [gate(opened_gate, say("found it"))]}
    async with bench(tmp_path, CONFIG, scripts) as opened:
        started = await opened.dispatcher.start(Order("Lead", "go"))
        views = views_of(opened)
        with anyio.fail_after(10):
            await opened.model.started("Worker")
            await opened.model.started("Lead", 2)
            await opened.model.started("Middle", 2)
        waiting = "select 1 from executions where waiting_for = 'children'"
        await opened.until(lambda: len(opened.sql(waiting)) == 2)
        before = await views.tree(started.id)
        nothing = await views.tree(started.id, before.cursor)
        opened_gate.set()
        await opened.ended(started.id)
        after = await views.tree(started.id, before.cursor)
        whole = await views.tree(started.id)

    assert (before.ended, after.ended) == (False, True)
    assert (nothing.nodes, nothing.executions, nothing.cursor) == ([], 3, before.cursor)
    assert one(before, "Worker").activity == "asking the model"
    assert one(before, "Lead").activity == "waiting for children"
    merged = {node.id: node for node in before.nodes} | {node.id: node for node in after.nodes}
    assert list(merged.values()) == whole.nodes


@requirement("S2-DA-6")
async def test_a_refused_dispatch_is_answered_with_its_reason_below_the_one_that_asked(tmp_path: Path) -> None:
    both = call("dispatch_agent", name="Middle", task="one") + call("dispatch_agent", name="Worker", task="two")
    held = anyio.Event()
    scripts = {"Lead": [both, say("waiting"), say("done")], "Middle": [gate(held, say("fine"))]}
    async with bench(tmp_path, CONFIG, scripts) as opened:
        started = await opened.dispatcher.start(Order("Lead", "go"))
        with anyio.fail_after(10):
            await opened.model.started("Lead", 2)
        held.set()
        await opened.ended(started.id)
        views = views_of(opened)
        tree, timeline = await views.tree(started.id), await views.timeline(started.id)
        below = await views.tree(one(tree, "Middle").id)

    [refused] = tree.refused
    assert (refused.parent_execution_id, refused.agent, refused.kind) == (started.id, "Worker", "limit")
    assert "max_concurrent_agents" in refused.message
    assert [event.payload["reason"] for event in timeline.events if "refused" in event.payload] == [refused.message]
    assert below.refused == []


async def test_a_call_that_waits_for_a_person_is_in_the_tree_and_in_the_activity(tmp_path: Path) -> None:
    scripts = {"Lead": [DELETE, say("gone")]}
    tools = deleting()
    async with bench(tmp_path, CONFIG, scripts, tools.for_agents("Lead")) as opened:
        started = await opened.dispatcher.start(Order("Lead", "tidy up"))
        [question] = await asked(opened)
        views = views_of(opened)
        tree, listed, bundle = await views.tree(started.id), await views.approvals(), await views.bundle(started.id)
        await decide(opened, question, YES)
        await opened.ended(started.id)
        after, timeline = await views.tree(started.id, tree.cursor), await views.timeline(started.id)
        whole = await views.bundle(started.id)

    assert whole.written_at is None
    assert bundle.written_at is not None
    assert tree.nodes[0].created_at <= bundle.written_at <= after.nodes[0].finished_at
    [approval] = tree.approvals
    assert approval == listed[0]
    assert (approval.id, approval.shown, approval.arguments) == (question.id, question.shown, '{"what": "everything"}')
    assert tree.nodes[0].activity == "waiting for approval of local.delete"
    assert (tree.nodes[0].times.lasting, after.nodes[0].times.lasting) == ("approval", None)
    assert after.approvals == []
    assert after.nodes[0].times.approval > 0
    assert [span.kind for span in timeline.spans if span.ref] == ["model", "approval", "tool", "model"]


async def test_a_clock_stands_still_while_a_call_below_waits_for_a_person(tmp_path: Path) -> None:
    scripts = {**DEEP, "Worker": [DELETE, say("gone")]}
    async with bench(tmp_path, CONFIG, scripts, deleting().for_agents("Worker")) as opened:
        started = await opened.dispatcher.start(Order("Lead", "tidy up"))
        [question] = await asked(opened)
        views = views_of(opened)
        bundle = await views.bundle(started.id)
        ids = [node.id for node in bundle.tree.nodes]
        details = [await views.execution(each) for each in ids]
        await decide(opened, question, YES)
        await opened.ended(started.id)
        after = [await views.execution(each) for each in ids]

    [approval] = bundle.tree.approvals
    assert [each.clock_stopped_at for each in details] == [approval.requested_at] * 3
    assert [bundle.executions[each].clock_stopped_at for each in ids] == [approval.requested_at] * 3
    assert [each.clock_stopped_at for each in after] == [None] * 3
    for before, moved in zip(details, after, strict=True):
        assert before.node.deadline_at < moved.node.deadline_at


def test_questions_that_overlap_are_one_stop_of_the_clock() -> None:
    asked_at = [("03", None), ("02", "05"), ("01", "04"), ("00", "01")]
    questions = [{"requested_at": begin, "decided_at": end} for begin, end in asked_at]

    assert stopped_at(questions, [{"since": "03"}]) == "00"
    assert stopped_at([questions[0], questions[3]], [{"since": "03"}]) == "03"
    assert stopped_at(questions[1:], []) is None


def test_a_call_that_was_stopped_with_its_execution_is_no_failure_in_its_time() -> None:
    row = {"id": "c", "execution_id": "e", "tool": "t", "server": "s", "status": "completed", "is_error": 1}
    times = {"started_at": "2026-01-01T00:00:00.000Z", "finished_at": "2026-01-01T00:00:01.000Z"}
    used = [time_use_of([], [{**row, **times, "error_type": why}], [], []) for why in ("cancelled", "failed")]

    assert [each.stretches["e"][0].is_error for each in used] == [False, True]


async def test_the_parts_of_the_time_of_an_execution_sum_to_its_age(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, DEEP) as opened:
        ended = await opened.run("Lead")
        tree = await views_of(opened).tree(ended.id)
        ages = {
            row["id"]: row["age"] * 86400
            for row in opened.sql("select id, julianday(finished_at) - julianday(created_at) as age from executions")
        }

    for node in tree.nodes:
        parts = node.times.model_dump(exclude={"lasting"})
        assert sum(parts.values()) == pytest.approx(ages[node.id], abs=0.002), node.agent
    assert one(tree, "Lead").times.children > 0
    assert one(tree, "Worker").times.children == 0


async def test_an_execution_whose_process_is_gone_can_be_resumed(tmp_path: Path) -> None:
    held = anyio.Event()
    async with bench(tmp_path, CONFIG, {**DEEP, "Lead": [gate(held, say("never"))]}) as opened:
        started = await opened.dispatcher.start(Order("Lead", "go"))
        with anyio.fail_after(10):
            await opened.model.started("Lead")
        views = views_of(opened)
        cursor = (await views.tree(started.id)).cursor
        library = opened.dispatcher.services.database
        await disowned(opened, started.id, "1-dead")
        tree, detail = await views.tree(started.id, cursor), await views.execution(started.id)
        await disowned(opened, started.id, library.owner)
        held.set()
        await opened.ended(started.id)

    assert tree.nodes[0].owner_gone
    assert "interrupted" in tree.nodes[0].activity
    assert detail.actions == ["resume", "cancel"]


async def disowned(opened: Bench, execution: str, owner: str) -> None:
    """Give an execution another owner, as if it had always had it."""
    connection = sqlite_library().connect(str(opened.database), isolation_level=None)
    connection.execute("update executions set owner = ? where id = ?", (owner, execution))
    connection.close()


async def test_an_unknown_execution_has_no_tree(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, DEEP) as opened:
        views = views_of(opened)
        for ask in (views.tree, views.execution, views.timeline, views.bundle):
            with pytest.raises(UnknownExecution):
                await ask("0" * 37)


@requirement("S2-DA-9")
async def test_changes_of_a_tree_of_ten_thousand_cost_as_many_statements_as_those_of_a_small_one(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, DEEP) as opened:
        ended = await opened.run("Lead")
    reads = Reads(opened.database)  # without a service, which asks questions of its own
    views = Views(reads, opened.database)
    try:
        tree = await views.tree(ended.id)
        cursor, middle = tree.cursor - 2, tree.nodes[1].id
        with watched() as few:
            await views.tree(ended.id, cursor)
        grown(opened, ended.id, middle, 10_000)
        with watched() as many:
            changed = await views.tree(ended.id, cursor)
        with watched() as all_of_it:
            whole = await views.tree(ended.id)
        [sums] = opened.sql("select * from subtree_totals where id = ?", middle)
        detail = await views.execution(middle)
    finally:
        await reads.close()

    assert changed.executions == whole.executions == 10_003
    assert len(changed.nodes) <= 3
    assert asking(many) == asking(few) <= 16
    assert asking(all_of_it) <= 16
    assert detail.subtree.executions == sums["executions"] == 10_002
    assert detail.subtree.tokens == sums["tokens"]
    assert detail.subtree.cost_usd == pytest.approx(sums["cost_usd"])
    assert detail.subtree.by_status == {"completed": 10_002}


def asking(seen: list[Seen]) -> int:
    """How many statements ask something; a new connection begins with others."""
    return sum(each.sql.startswith(("SELECT", "WITH")) for each in seen)


def grown(opened: Bench, root: str, parent: str, number: int) -> None:
    """Add ended executions below one, by hand."""
    blank = {each.name: each.default.arg if each.default is not None else None for each in executions.columns}  # type: ignore[attr-defined]
    names, at = list(blank), stamp()
    connection = sqlite_library().connect(str(opened.database), isolation_level=None)
    connection.execute("begin")
    for position in range(number):
        row = blank | {"id": new_id(), "parent_execution_id": parent, "root_execution_id": root, "position": position + 100}
        row |= {"agent": "Extra", "role": "sub_agent", "strategy": "loop", "path": "Extra", "status": "completed"}
        row |= {"created_at": at, "started_at": at, "finished_at": at, "input_tokens": 3, "cost_usd": 0.25}
        marks = ",".join("?" * len(names))
        connection.execute(f"insert into executions ({','.join(names)}) values ({marks})", [row[each] for each in names])
    connection.execute("commit")
    connection.close()
