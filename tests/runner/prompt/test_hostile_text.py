"""Hostile text changes nothing but the text shown, wherever it comes from: users, memory, outputs, plans, configuration."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import anyio
import pytest

from runner.llm.protocol import ModelError, Request
from runner.messages import clean
from runner.prompt.system import first_message
from runner.result import Result, completed
from runner.service.order import Order
from runner.snapshot import Snapshot
from runner.strategies.chain import StageBriefing, synthesis_request
from runner.strategies.plan.export import plan_of
from runner.text import BLOCKS, escape_blocks, label
from tests.runner.prompt.hostile import hostile, notes, tags
from tests.runner.strategies.route.routed import decide, said_before
from tests.support.models import Turn, call, crash, say
from tests.support.service import Bench, bench, settings_of

HARMLESS = "plain words"
CLOSING = re.compile(r"</([a-z_]+)>")
TEXTS = [HARMLESS, *hostile()]

AGENTS = """
agents:
  Coord: {strategy: route, sub_agents: [A, B], route: {planner: Ours}}
  Ours: {strategy: plan, plan: {max_replans: 2, max_retries: 1}}
  A: {description: does a}
  B: {description: does b}
  Keeper: {memory: true}
chat: {agent: Coord}
"""


def named(number: int, text: str) -> str:
    """A text that says which of all it is."""
    return f"#{number} {text}"


def number_of(request: Request) -> int:
    """Which text a request is about."""
    found = re.search(r"#(\d+) ", request.messages[0].text)
    assert found is not None
    return int(found[1])


def said(number: int) -> str:
    """The text as a model says it: its words are cleaned where they come in."""
    return named(number, clean(TEXTS[number]))


def draft(number: int, version: int) -> Turn:
    """A plan with the text in every field."""
    text, short = said(number), said(number)[:2_000]
    first: list[dict[str, Any]] = [
        {"id": "s1", "agent": "A", "task": text, "notes": text, "userInstruction": text, "intent": text},
        {"id": text, "agent": short, "task": text, "dependsOn": [text]},
    ]
    rest = [{"id": "s3", "agent": "A", "task": text}, {"id": "s4", "agent": "B", "task": text, "dependsOn": ["s3"]}]
    steps = first if version == 1 else rest
    more = {"analysis": text, "responseHint": text, "resolvedValues": {text[:50]: text}}
    return say(json.dumps({"steps": steps, **more}, ensure_ascii=False))


class Script:
    """Who says what: everybody says the text, and each number is asked for by its own messages."""

    def __init__(self) -> None:
        self.seen: dict[tuple[int, str], list[Request]] = defaultdict(list)

    def __call__(self, request: Request) -> Turn:
        number = number_of(request)
        seen = self.seen[number, request.agent]
        seen.append(request)
        match request.agent, len(seen):
            case "Classifier", _:
                return decide("A", "B", plan=True)
            case "Planner", count:
                return draft(number, 1 if count < 3 else 2)
            case "A", 1:
                return crash(ModelError("broken", said(number), recoverable=False))
            case "Keeper", 1:
                return call("extract_memory", facts=[{"content": said(number)[:2_000], "category": said(number)[:50]}])
            case "B", 1:
                return crash(ModelError("broken", said(number), recoverable=True))
            case _:
                return say(f"{said(number)} from {request.agent}")


def everybody() -> str:
    """A user for each text, who is called so."""
    names = [said(number)[:300].replace("${", "$${") for number in range(len(TEXTS))]
    users = {f"u{number}": {"name": name} for number, name in enumerate(names)}
    return f"users: {json.dumps(users)}\n{AGENTS}"


async def converse(service: Bench, number: int) -> Snapshot:
    """A fact is remembered and something was said before; then a message is answered by a plan."""
    user = f"u{number}"
    await service.run("Keeper", named(number, "keep it"), user=user)
    await said_before(service, user, said(number), said(number))
    child, _ = await service.dispatcher.chat_queue.accept(Order("", named(number, TEXTS[number]), user=user))
    return await service.ended(child.id)


def whole(request: Request) -> str:
    """All a model is shown."""
    return "\n".join([request.system, *(message.text for message in request.messages)])


def structure(request: Request) -> list[list[str]]:
    """The marks of a request."""
    return [[*tags(text), *notes(text)] for text in (request.system, request.messages[0].text)]


async def test_no_text_changes_the_blocks_of_a_prompt_or_what_happens(tmp_path: Path) -> None:
    script = Script()
    async with bench(tmp_path, everybody(), {"*": script}) as service:
        ends: dict[int, Snapshot] = {}

        async def one(number: int) -> None:
            ends[number] = await converse(service, number)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for number in range(len(TEXTS)):
                    group.start_soon(one, number, name=f"text {number}")
        agents = {agent for _, agent in script.seen}
        assert agents == {"Keeper", "Classifier", "Planner", "A", "B", "Composer"}
        closed = {name for agent in agents for each in script.seen[0, agent] for name in CLOSING.findall(whole(each))}
        assert closed - set(BLOCKS) == {"name", "timezone", "locale"}, "a block that text from outside could close"
        for number, text in enumerate(TEXTS):
            for agent in agents:
                asked = script.seen[number, agent]
                expected = [structure(each) for each in script.seen[0, agent]]
                assert [structure(each) for each in asked] == expected, (agent, text[:80])
            check_prompts(script, number)
            await check_rows(service, number, ends[number])


def check_prompts(script: Script, number: int) -> None:
    """Every text is shown as it is, but for what would be a tag; nothing is rendered."""
    text = escape_blocks(said(number))
    planner, repairing, revising, again = script.seen[number, "Planner"]
    for request in (planner, script.seen[number, "Classifier"][0], script.seen[number, "Composer"][0]):
        assert request.system.count(f">{text}</said>") == 2
        assert f">{escape_blocks(said(number)[:2_000].strip())}</fact>" in request.system
        assert f"<name>{label(said(number)[:300])}</name>" in request.system
    composer = script.seen[number, "Composer"][0].messages[0].text
    assert f"<presentation>{text}</presentation>" in composer
    assert f"{text} from A" in composer
    assert composer.startswith(text)
    assert repairing.messages[0].text.startswith(text)
    assert revising.messages[0].text.startswith(text)
    reason = f"Replan needed: step_failed in s3: <reason>the model could not answer: {text}</reason>"
    assert again.messages[0].text.endswith(reason)
    failed, repeated = script.seen[number, "B"]
    assert f"{text} from A" in failed.messages[0].text
    assert f"could not answer: {text}</attempt>" in repeated.messages[0].text


async def check_rows(service: Bench, number: int, ended: Snapshot) -> None:
    """What was stored is what was said."""
    words, text, user = clean(named(number, TEXTS[number])), said(number), f"u{number}"
    assert ended.result is not None
    assert (ended.status, ended.result.text) == ("completed", f"{text} from Composer")
    chat = service.sql("select content from chat_messages where user_id = ? order by created_at, id", user)
    assert [row["content"] for row in chat][2:] == [words, f"{text} from Composer"]
    [fact] = service.sql("select content from facts where user_id = ?", user)
    assert fact["content"] == text[:2_000].strip()
    [known] = service.sql("select name from users where id = ?", user)
    assert known["name"] == text[:300]
    rows = service.sql("select * from executions where root_execution_id = ? order by id", ended.id)
    assert [row["role"] for row in rows] == [
        "root", "classifier", "plan", "planner", "planner", "step", "step", "planner", "step", "step",
        "planner", "step", "step", "composer",
    ]  # fmt: skip
    assert {row["task"] for row in rows} == {words, text}
    shown = await plan_of(service.dispatcher.services.database.reads, rows[2]["id"])
    assert shown is not None
    assert (shown["analysis"], shown["response_hint"]) == (text, text)
    assert {step["id"]: step["status"] for step in shown["steps"]} == {
        "s1": "skipped", "action_2": "blocked", "s3": "failed", "s4": "skipped", "s3_v3": "completed", "s4_v3": "completed",
    }  # fmt: skip
    assert {step["task"] for step in shown["steps"]} == {text}
    assert shown["steps"][4]["response"] == f"{text} from A"


async def test_half_a_character_is_no_reason_to_fail_wherever_it_comes_in(tmp_path: Path) -> None:
    half, whole = "half \ud800 of it", "half ? of it"
    async with bench(tmp_path, "agents: {A: {description: a}}", {"A": [say("done")]}) as service:
        order = Order("A", half, {half: [half]}, key="k")
        first = await service.dispatcher.start(order)
        assert (await service.dispatcher.start(order)).id == first.id
        assert (await service.ended(first.id)).status == "completed"
        assert service.sql("select task, input from executions") == [{"task": whole, "input": f'{{"{whole}":["{whole}"]}}'}]
        again = await service.dispatcher.resume(first.id, half)
        assert (await service.ended(again.id)).status == "completed"
        assert service.model.requests[-1].messages[-1].text == whole
    result = completed("done").stamped(dispatched=[{"task": half}], made=object())
    assert Result.of_json(result.to_json()).metadata["dispatched"] == [{"task": whole}]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_tasks_inputs_and_reports_stay_in_their_places(tmp_path: Path, text: str) -> None:
    data = {"alert": clean(text), clean(text)[:50]: [clean(text)]}
    assert tags(first_message(text)) == notes(first_message(text)) == []
    assert tags(first_message(text, data)) == tags(first_message(text, text)) == ["input", "/input"]
    earlier = [("one", text), (clean(text)[:50], text)]
    expected = ["earlier", "stage", "/stage", "stage", "/stage", "/earlier"]
    assert tags(first_message(text, None, earlier)) == expected
    settings = settings_of(tmp_path, "agents: {A: {}}\nagent_chains: {c: {stages: [{name: s, agents: [A]}]}}")
    request = synthesis_request(settings, settings.chain("c").stages[0], StageBriefing(text, None, earlier))
    assert request.prompt is not None
    assert tags(request.prompt) == expected
    assert escape_blocks(text) in request.prompt
    assert escape_blocks(escape_blocks(text)) == escape_blocks(text)


def test_words_that_are_no_tags_stay_as_they_are() -> None:
    kept = "a < b, x<y, 5 < step 7, <b>bold</b>, <stages>, </steps_of>, <agent-smith>, if (n <messages) {}, →</p>"
    assert escape_blocks(kept) == kept.replace("<agent-", "<~agent-")
    assert all(escape_blocks(f"<{block}>") == f"<~{block}>" for block in BLOCKS)
