"""Single executions as they are answered: result, sums, evidence, transcript, timeline, and the bundle of a tree."""

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from db.tables import ApprovalRow, EventRow, ExecutionRow, MessageRow, ModelCallRow, ToolCallRow
from runner.llm.protocol import Request
from runner.result import completed
from server.cli.show.execution_view import load_view
from server.views import answers, figures, records
from server.views.views import Views
from tests.server.views.test_trees import CONFIG, DEEP, one, views_of
from tests.support.local_tools import LocalTools
from tests.support.models import Turn, call, fail, say, shared
from tests.support.requirement import requirement
from tests.support.service import bench

LONG = "line of a log\n" * 1_000


async def _search(_: object) -> str:
    return LONG


def citing(request: Request) -> Turn:
    """An answer that cites the call before it, and one that was never made."""
    made = next(block["id"] for each in request.messages for block in each.content if block["type"] == "tool_use")
    return say(f"It is the disk, see [call {made}] and toolu_ffffffffffffffff.")


@requirement("S2-DA-3")
async def test_a_child_is_answered_with_its_own_events_in_order_and_its_result(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, DEEP) as opened:
        ended = await opened.run("Lead")
        views = views_of(opened)
        worker = one(await views.tree(ended.id), "Worker")
        detail, timeline = await views.execution(worker.id), await views.timeline(worker.id)

    assert {event.execution_id for event in timeline.events} == {worker.id}
    numbers = [event.seq for event in timeline.events]
    assert numbers == sorted(number for number in numbers if number is not None)
    told = [event.payload["status"] for event in timeline.events if event.type == "execution.status"]
    assert told == ["pending", "running", "completed"]
    assert detail.result is not None
    assert (detail.result.outcome, detail.result.output) == ("completed", "found it")
    assert [(each.agent) for each in detail.ancestors] == ["Lead", "Middle"]
    assert detail.ancestors[0].id == ended.id
    assert detail.task == "work on it\nwith care"
    assert detail.actions == ["message", "rerun"]


@requirement("S2-DA-9")
async def test_the_sums_of_a_subtree_stand_on_its_parent_and_equal_those_of_the_view(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {**DEEP, "Worker": [fail("failed", "no luck", recoverable=False)]}) as opened:
        ended = await opened.run("Lead")
        views = views_of(opened)
        bundle = await views.bundle(ended.id)
        rows = {row["id"]: row for row in opened.sql("select * from subtree_totals where root_execution_id = ?", ended.id)}
        details = {each: await views.execution(each) for each in rows}

    assert bundle.executions.keys() == rows.keys()
    for each, row in rows.items():
        for sums in (bundle.executions[each].subtree, details[each].subtree):
            assert (sums.executions, sums.tokens) == (row["executions"], row["tokens"])
            assert sums.cost_usd == pytest.approx(row["cost_usd"])
            assert sums.seconds == pytest.approx(row["seconds"], abs=0.003)
            assert sums.by_status == {name: row[name] for name in ("completed", "failed") if row[name]}
    assert details[ended.id].subtree.by_status == {"completed": 2, "failed": 1}


async def test_the_calls_that_an_answer_names_are_its_evidence(tmp_path: Path) -> None:
    tools = LocalTools({"search": _search}, effect="read_only")
    scripts = {"Lead": [call("search", text="error"), citing]}
    async with bench(tmp_path, CONFIG, scripts, tools.for_agents("Lead")) as opened:
        ended = await opened.run("Lead")
        views = views_of(opened)
        detail = await views.execution(ended.id)
        bundle = await views.bundle(ended.id)
        [row] = opened.sql("select * from tool_calls")

    made, invented = detail.citations
    assert (made.cited, made.call_id, made.execution_id, made.tool) == (row["call_id"], row["id"], ended.id, "local.search")
    assert (invented.cited, invented.call_id) == ("toolu_ffffffffffffffff", None)
    assert [each for each in detail.warnings if "unverified evidence" in each]
    assert bundle.executions[ended.id].citations == detail.citations


async def test_a_transcript_has_the_calls_of_each_message_and_cuts_long_results(tmp_path: Path) -> None:
    tools = LocalTools({"search": _search}, effect="read_only")
    scripts = {
        "Lead": [call("search", text="error"), call("dispatch_agent", name="Worker", task="w"), say("."), say("done")]
    }
    scripts["Worker"] = [say("worked")]
    async with bench(tmp_path, CONFIG, scripts, tools.for_agents("Lead")) as opened:
        ended = await opened.run("Lead")
        views = views_of(opened)
        page = await views.transcript(ended.id)
        rest = await views.transcript(ended.id, 2)
        searched, dispatched = [each for message in page.messages for each in message.calls]
        found = await views.tool_call(searched.id)
        bundle = await views.bundle(ended.id)
        child = one(bundle.tree, "Worker")

    assert page.messages[0].content[0]["text"].startswith("do it")
    assert (page.total, page.next_position) == (len(page.messages), None)
    assert [message.position for message in rest.messages] == list(range(2, page.total))
    assert (searched.tool, searched.arguments, searched.truncated) == ("local.search", {"text": "error"}, True)
    assert found is not None
    assert (found[0], found[1].result, found[1].truncated) == (ended.id, LONG, False)
    assert dispatched.child_execution_id == child.id
    assert [each.turn for each in page.model_calls] == list(range(1, len(page.model_calls) + 1))
    whole = bundle.transcripts[ended.id]
    assert next(each.result for message in whole.messages for each in message.calls) == LONG
    assert bundle.timelines.keys() == bundle.transcripts.keys() == {node.id for node in bundle.tree.nodes}
    assert json.loads(bundle.model_dump_json())["format"] == "outrider-bundle"


async def test_plans_and_artifacts_of_an_execution_without_any_are_empty(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, DEEP) as opened:
        ended = await opened.run("Lead")
        views: Views = views_of(opened)

        assert await views.plan(ended.id) is None
        assert (await views.artifacts(ended.id)).artifacts == []
        assert await views.tool_call("nothing") is None


async def test_an_execution_names_those_that_continue_it_and_the_tree_it_was_forked_from(tmp_path: Path) -> None:
    both = call("dispatch_agent", name="Middle", task="one") + call("dispatch_agent", name="Worker", task="two")
    config = CONFIG.replace("max_concurrent_agents: 1", "max_concurrent_agents: 2")
    scripts = {"Lead": shared(both, *[say("done")] * 9), "Middle": [say("m")], "Worker": [say("w")]}
    async with bench(tmp_path, config, scripts) as opened:
        ended = await opened.run("Lead")
        views = views_of(opened)
        worker = one(await views.tree(ended.id), "Worker")
        forked = await opened.dispatcher.rerun(ended.id, worker.id, None)
        await opened.ended(forked.id)
        later = await opened.dispatcher.resume(forked.id, "and now?")
        await opened.ended(later.id)
        first, fork, last = [await views.execution(each) for each in (ended.id, forked.id, later.id)]
        bundle = await views.bundle(forked.id)
        reads = opened.dispatcher.services.database.reads
        shown = [await load_view(reads, opened.database, each) for each in (forked.id, later.id)]

    told = f"from {ended.id} at {worker.id}; 1 execution kept"
    assert shown[0].origin_text() == f"forked {told}\n"
    facts = [dict(line.split(maxsplit=1) for line in each.facts_text().splitlines()) for each in shown]
    assert (facts[0]["forked"], facts[0]["continued"], facts[1]["continues"]) == (told, f"by {later.id}", forked.id)
    assert fork.origin == answers.ForkOrigin(forked_from=ended.id, at=worker.id, kept=1)
    assert bundle.executions[forked.id].origin == fork.origin
    assert (first.origin, last.origin, last.node.continues_execution_id) == (None, None, forked.id)
    assert fork.continued_by == [answers.Ancestor(id=later.id, agent="Lead")]
    assert first.continued_by == last.continued_by == []


ROWS = (ExecutionRow, EventRow, MessageRow, ModelCallRow, ToolCallRow, ApprovalRow)


def test_every_column_in_an_answer_has_the_type_of_its_table() -> None:
    found = [each for module in (answers, records, figures) for each in vars(module).values()]
    models: list[type[BaseModel]] = [each for each in found if isinstance(each, type) and issubclass(each, BaseModel)]
    above: list[type[BaseModel]] = [each for model in models for each in model.__mro__ if issubclass(each, BaseModel)]
    built = [each for each in above if each.__name__.endswith("Columns")]
    by_name = {f"{row.__name__}Columns": row for row in ROWS}

    assert len(built) >= 10
    for each in built:
        row = by_name[each.__name__]
        assert {name: field.annotation for name, field in each.model_fields.items()} == {
            name: row.model_fields[name].annotation for name in each.model_fields
        }


def test_a_result_is_answered_with_the_fields_of_the_return_contract() -> None:
    stored = json.loads(completed("an answer").to_json())

    assert stored.keys() == answers.ResultDetail.model_fields.keys()
