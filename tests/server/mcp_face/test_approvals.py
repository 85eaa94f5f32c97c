"""Clients and the calls that a person must allow: whoever can be asked is asked, at whatever depth the question arose."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp.types as t
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from server.mcp_face.tasks import LATE
from tests.support.face import Caller, Face, face, text_of
from tests.support.gated import CONFIG, DELETE, asked, decide, deleting
from tests.support.local_tools import LocalTools
from tests.support.models import Step, say
from tests.support.reading import dispatch
from tests.support.shell import CONFIG as SHELL
from tests.support.shell import SCRIPT, make_shell
from tests.support.tasks import Tasks, ask
from tests.support.wire import served_over_http

SCRIPTS: Mapping[str, list[Step]] = {
    "Lead": [dispatch("Worker"), say("I wait"), say("all is done")],
    "Worker": [DELETE, say("it is gone")],
}
ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])


class Answering:
    """A person behind a client."""

    def __init__(self, action: str = "accept", *, confirm: bool = True, reason: str = "") -> None:
        self._answer: dict[str, Any] = {"action": action}
        if action == "accept":
            self._answer["content"] = {"confirm": confirm, "reason": reason}
        self.asked: list[str] = []

    async def __call__(self, context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        self.asked.append(params.message)
        return t.ElicitResult(**self._answer)


@asynccontextmanager
async def gated(folder: Path) -> AsyncIterator[tuple[Face, LocalTools]]:
    """A face before agents of which one, two levels down, may delete if somebody allows it."""
    tools = deleting()
    async with face(folder, CONFIG, SCRIPTS, tools.for_agents("Worker")) as opened:
        yield opened, tools


async def dispatched(caller: Caller) -> str:
    started = await caller.call("dispatch_agent", name="Lead", task="clean up")
    return str(started["execution_id"])


@ERAS
async def test_a_person_is_asked_while_a_call_waits_and_the_call_goes_on_with_the_answer(tmp_path: Path, era: str) -> None:
    person = Answering()
    async with gated(tmp_path) as (opened, tools), opened.client(era, elicitation_callback=person) as caller:
        root = await dispatched(caller)
        done = await caller.call("get_result", execution_id=root)

    assert done["result"]["output"] == "all is done"
    assert len(tools.calls) == 1
    [shown] = person.asked
    assert "Worker wants to call `local.delete`" in shown
    assert '{"what": "everything"}' in shown
    [row] = opened.bench.sql("select decided_by, decision from approvals")
    assert row == {"decided_by": "an MCP client", "decision": "approved"}


@ERAS
async def test_a_call_that_started_the_execution_asks_too_and_starts_nothing_twice(tmp_path: Path, era: str) -> None:
    person = Answering(confirm=False, reason="keep it")
    async with gated(tmp_path) as (opened, tools), opened.client(era, elicitation_callback=person) as caller:
        done = await caller.call("run_agent", name="Lead", task="clean up")

    assert done["status"] == "completed"
    assert len(person.asked) == 1
    assert tools.calls == []
    assert opened.bench.statuses() == {"Lead": ["completed"], "Worker": ["completed"]}
    [row] = opened.bench.sql("select reason, decision from approvals")
    assert row == {"reason": "keep it", "decision": "denied"}


@ERAS
async def test_a_question_that_is_dismissed_stays_open_and_is_not_put_again_by_the_same_call(
    tmp_path: Path, era: str
) -> None:
    person = Answering("cancel")
    async with gated(tmp_path) as (opened, tools), opened.client(era, elicitation_callback=person) as caller:
        root = await dispatched(caller)
        waited = await caller.call("get_result", execution_id=root, wait_seconds=0.5)
        [question] = await asked(opened.bench)
        await decide(opened.bench, question)
        await caller.call("get_result", execution_id=root)

    assert waited["waiting_for"] == "approval"
    assert len(person.asked) == 1
    assert len(tools.calls) == 1


async def test_a_client_that_cannot_ask_learns_what_waits_and_never_how_it_is_allowed(tmp_path: Path) -> None:
    tasks = Tasks()
    async with gated(tmp_path) as (opened, _), opened.client() as caller, opened.client(extensions=[tasks]) as other:
        root = await dispatched(caller)
        [question] = await asked(opened.bench)
        task = await ask(other.client, "get", root)
        seen = await caller.call("get_result", execution_id=root, wait_seconds=0)
        words = text_of(await caller.client.call_tool("get_result", {"execution_id": root, "wait_seconds": 0}))
        rows = await caller.client.call_tool("query_executions", {"sql": "select * from approvals"})
        instructions = (await caller.client.session.discover()).instructions

    assert seen["waiting_for"] == "approval"
    [waiting] = seen["approvals"]
    assert (waiting["approval_id"], waiting["agent"], waiting["tool"]) == (question.id, "Worker", "local.delete")
    assert waiting["arguments"] == {"what": "everything"}
    for told in (seen["hint"], words, task["statusMessage"]):
        assert "user must decide" in told
        assert question.execution_id in told
    for told in (str(seen), words, str(task), str(rows), str(instructions)):
        assert "outrider approve" not in told
        assert "--yes" not in told
        assert question.digest not in told
        assert question.seal not in told
    assert task["status"] == "working"


async def test_once_it_is_decided_no_answer_shows_the_question_any_more(tmp_path: Path) -> None:
    tasks = Tasks()
    async with gated(tmp_path) as (opened, _), opened.client() as caller, opened.client(extensions=[tasks]) as other:
        root = await dispatched(caller)
        [question] = await asked(opened.bench)
        await decide(opened.bench, question)
        seen = await caller.call("get_result", execution_id=root, wait_seconds=0)
        below = await caller.call("get_result", execution_id=question.execution_id, wait_seconds=0)
        task = await ask(other.client, "get", root)
        resource = await caller.client.read_resource(f"execution://{question.execution_id}")

    for told in (seen, below, task, resource):
        assert "approval" not in re.sub(r"'(waiting_for|approvals)': (None|\[\])", "", str(told)), told


@ERAS
async def test_an_answer_that_comes_too_late_is_told_who_decided_and_when(tmp_path: Path, era: str) -> None:
    async def late(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        [question] = await asked(opened.bench)
        assert await decide(opened.bench, question)
        return t.ElicitResult(action="decline")

    async with gated(tmp_path) as (opened, tools), opened.client(era, elicitation_callback=late) as caller:
        root = await dispatched(caller)
        done = await caller.client.call_tool("get_result", {"execution_id": root})

    [row] = opened.bench.sql("select id, decided_at from approvals")
    words = "".join(block.text for block in done.content if isinstance(block, t.TextContent))
    assert f"was too late: approval `{row['id']}` was approved by Ada at {row['decided_at']}" in words
    assert len(tools.calls) == 1


async def test_a_task_that_is_answered_twice_tells_who_decided_and_when(tmp_path: Path) -> None:
    tasks = Tasks()
    async with (
        gated(tmp_path) as (opened, tools),
        opened.client(extensions=[tasks], elicitation_callback=Answering()) as caller,
    ):
        await caller.client.call_tool("dispatch_agent", {"name": "Lead", "task": "clean up"})
        task = tasks.handles[-1].task_id
        [question] = await asked(opened.bench)
        yes = {question.id: {"action": "accept", "content": {"confirm": True}}}
        first = await ask(caller.client, "update", task, input_responses=yes)
        again = await ask(caller.client, "update", task, input_responses=yes)

    assert LATE not in first.get("_meta", {})
    [told] = again["_meta"][LATE]
    assert f"approval `{question.id}` was approved by an MCP client at " in told
    assert len(tools.calls) <= 1


async def test_a_task_asks_for_input_whatever_the_depth_and_an_answer_to_the_task_is_one_to_the_call(
    tmp_path: Path,
) -> None:
    tasks = Tasks()
    async with (
        gated(tmp_path) as (opened, tools),
        opened.client(extensions=[tasks], elicitation_callback=Answering()) as caller,
    ):
        await caller.client.call_tool("dispatch_agent", {"name": "Lead", "task": "clean up"})
        task = tasks.handles[-1].task_id
        [question] = await asked(opened.bench)
        before = await ask(caller.client, "get", task)
        yes = {"action": "accept", "content": {"confirm": True}}
        wrong = {"nobody": yes, question.id: {"action": "accept", "content": {"confirm": "true"}}}
        await ask(caller.client, "update", task, input_responses=wrong)
        still = await ask(caller.client, "get", task)
        await ask(caller.client, "update", task, input_responses={question.id: yes})
        with anyio.fail_after(10):
            while (after := await ask(caller.client, "get", task))["status"] == "working":
                await anyio.lowlevel.checkpoint()

    assert (before["status"], still["status"], after["status"]) == ("input_required", "input_required", "completed")
    [request] = before["inputRequests"].values()
    assert request["method"] == "elicitation/create"
    assert "local.delete" in request["params"]["message"]
    assert request["params"]["requestedSchema"]["required"] == ["confirm"]
    assert len(tools.calls) == 1


async def test_what_a_call_remembers_between_two_rounds_is_worthless_for_anything_else(tmp_path: Path) -> None:
    async with gated(tmp_path) as (opened, tools), opened.client(elicitation_callback=Answering()) as caller:
        root = await dispatched(caller)
        other = await dispatched(caller)
        await asked(opened.bench, 2)
        state, question = await first_round(caller.client, root)
        yes = {question: t.ElicitResult(action="accept", content={"confirm": True})}
        forged = [
            ({"execution_id": other}, state),  # another call
            ({"execution_id": root}, state[:-4] + ("AAAA" if state[-4:] != "AAAA" else "BBBB")),
            ({"execution_id": root}, '{"waited": [], "shown": {}}'),
        ]
        for arguments, told in forged:
            with pytest.raises(MCPError, match="requestState"):
                await again(caller.client, arguments, yes, told)
        async with opened.client(elicitation_callback=Answering()) as stranger:
            with pytest.raises(MCPError, match="requestState"):  # of another server
                await again(stranger.client, {"execution_id": root}, yes, state)
        await again(
            caller.client,
            {
                "execution_id": root,
            },
            yes,
            None,
        )  # nothing was shown
        undecided = opened.bench.sql("select id from approvals where decision is not null")
        await again(caller.client, {"execution_id": root}, yes, state)
        decided = opened.bench.sql("select id from approvals where decision is not null")

    assert undecided == []
    assert decided == [{"id": question}]
    assert len(tools.calls) == 1


async def first_round(client: Client, execution: str) -> tuple[str, str]:
    """The state and the one question of a call that asks."""
    answer = await client.session.call_tool("get_result", {"execution_id": execution}, allow_input_required=True)
    assert isinstance(answer, t.InputRequiredResult)
    assert answer.request_state is not None
    [question] = answer.input_requests or {}
    return answer.request_state, question


async def again(client: Client, arguments: Mapping[str, Any], answers: Mapping[str, Any], state: str | None) -> Any:
    """Call again with what a person is said to have answered."""
    return await client.session.call_tool(
        "get_result", dict(arguments), input_responses=dict(answers), request_state=state, allow_input_required=True
    )


async def test_a_person_is_asked_over_both_transports_by_real_processes(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, SHELL.replace("timeout: 50s}", "timeout: 50s, gates: {wait: ask}}"))
    (tmp_path / "opened").write_text("the gate is open", encoding="utf-8")
    environ = shell.surroundings(GATE=str(tmp_path / "opened"))
    stdio = StdioServerParameters(command=str(SCRIPT), args=["serve"], cwd=shell.folder, env=environ)
    asked_by: list[int] = []
    with anyio.fail_after(60):
        async with served_over_http(shell, GATE=str(tmp_path / "opened")) as (_, url):
            for server, era in ((url, "legacy"), (url, "auto"), (stdio, "legacy")):
                person = Answering()
                async with Client(server, mode=era, elicitation_callback=person) as client:
                    done = await client.call_tool("run_agent", {"name": "Waiter", "task": "wait", "wait_seconds": 30})
                assert done.structured_content["result"]["output"].endswith("I waited")
                asked_by.append(len(person.asked))

    assert asked_by == [1, 1, 1]
    calls = shell.rows("select status, result from tool_calls where tool = 'gate.wait'")
    assert [(call["status"], call["result"]) for call in calls] == [("completed", "the gate is open")] * 3
