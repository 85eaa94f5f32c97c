"""The scripted model that other tests rely on: who gets which turn, what gates hold back, what is recorded."""

from __future__ import annotations

import anyio
import pytest

from runner.llm.protocol import ModelError, Request, Usage
from tests.runner.llm.asking import asked, user
from tests.support.models import ScriptedModel, Turn, call, crash, fail, gate, hang, malformed_call, say, shared, think


def quiet(_: str) -> None:
    return


async def texts(model: ScriptedModel, *requests: Request) -> list[str]:
    return [(await model.complete(request, quiet)).content[0]["text"] for request in requests]


async def test_every_execution_of_an_agent_plays_its_turns_from_the_first() -> None:
    model = ScriptedModel({"Worker": [say("one"), say("two")]})
    first, second = asked(), asked(execution_id="e2")
    assert await texts(model, first, second, first, second) == ["one", "one", "two", "two"]


async def test_shared_turns_are_handed_out_across_executions() -> None:
    model = ScriptedModel({"Worker": shared(say("one"), say("two"))})
    assert await texts(model, asked(), asked(execution_id="e2")) == ["one", "two"]


async def test_an_execution_id_comes_before_the_agent_and_the_agent_before_the_star() -> None:
    model = ScriptedModel({"e9": [say("by id")], "Worker": [say("by name")], "*": [say("by star")]})
    assert await texts(model, asked(execution_id="e9"), asked(), asked(agent="Other")) == ["by id", "by name", "by star"]


async def test_a_turn_may_be_computed_from_the_request() -> None:
    async def echo(request: Request) -> Turn:
        return say(f"{request.agent}: {request.messages[-1].text}")

    model = ScriptedModel({"Worker": echo, "Other": [lambda request: say(request.agent)]})
    assert await texts(model, asked(user("hi")), asked(agent="Other")) == ["Worker: hi", "Other"]


async def test_turns_add_up_to_one_reply_with_fresh_call_ids() -> None:
    turn = think("hm") + say("looking") + call("logs__query", limit=5) + malformed_call("finish", "{")
    model = ScriptedModel({"Worker": [turn.using(Usage(7, 3)), turn]})
    said: list[str] = []
    first = await model.complete(asked(), said.append)
    second = await model.complete(asked(), said.append)
    assert [block["type"] for block in first.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert first.content[2]["input"] == {"limit": 5}
    assert first.content[3]["input"] == "{"
    assert (first.stop_reason, first.usage, said) == ("tool_use", Usage(7, 3), ["looking", "looking"])
    assert len({block["id"] for reply in (first, second) for block in reply.content if "id" in block}) == 4


async def test_a_gate_holds_a_turn_back_until_the_test_opens_it() -> None:
    opened = anyio.Event()
    model = ScriptedModel({"Worker": [gate(opened, say("late"))]})
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(model.complete, asked(), quiet)
            request = await model.started("Worker")
            assert request.execution_id == "e1"
            assert model.running == 1
            opened.set()
    assert (model.running, model.peak, model.cancelled) == (0, 1, [])


async def test_a_cancelled_call_is_recorded() -> None:
    model = ScriptedModel({"Worker": [hang()]})
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(model.complete, asked(), quiet)
            await model.started("Worker")
            group.cancel_scope.cancel()
        assert (await model.saw_cancelled("e1")).agent == "Worker"
    assert model.running == 0


async def test_requests_are_kept_as_they_were_when_they_were_made() -> None:
    model = ScriptedModel({"Worker": [say("one")]})
    request = asked(user("first"))
    await model.complete(request, quiet)
    assert isinstance(request.messages, list)
    request.messages.append(user("later"))
    assert [message.text for message in model.of("Worker")[0].messages] == ["first"]


async def test_failures_crashes_and_missing_turns_are_raised() -> None:
    model = ScriptedModel({"Worker": [fail("rate_limited"), crash(ZeroDivisionError())]})
    with pytest.raises(ModelError) as caught:
        await model.complete(asked(), quiet)
    assert (caught.value.kind, caught.value.recoverable) == ("rate_limited", True)
    with pytest.raises(ZeroDivisionError):
        await model.complete(asked(), quiet)
    with pytest.raises(ModelError, match="has 2 turns and was asked for one more"):
        await model.complete(asked(), quiet)
    with pytest.raises(ModelError, match="knows no agent `Other`"):
        await model.complete(asked(agent="Other"), quiet)
