"""How much the agents of a plan are told: in parts that do not depend on each other, within a budget, with nothing lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from db.clock import stamp
from db.store.engine import sqlite_library
from registry import AgentSpec, CatalogueEntry
from runner.llm.protocol import Request
from runner.marks import restored
from runner.prompt.system import PromptParts, system_prompt
from runner.prompt.user_parts import UserParts
from runner.service.order import Order
from runner.text import tokens_of
from tests.runner.strategies.plan.planned import A, B, C, config, plan
from tests.support.models import Turn, call, say
from tests.support.reading import answer
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

PEOPLE = "users: {alex: {name: Alex}}\nchat: {agent: Assistant}\n"
WORKERS = {"A": [say("alpha")], "B": [say("beta")], "C": [say("gamma")], "Composer": [say("all done")]}

PARTS = PromptParts(
    AgentSpec("Planner", custom_instructions="BASE"),
    "Planner",
    "planner",
    roster=[CatalogueEntry("mail", "reads mail", ())],
    brief="BRIEF",
    personal=UserParts("TIME", "USER", "MEMORY", "HISTORY"),
)


@requirement("S0-FR-10", "S0-CTX-4", "S0-PR-1")
def test_a_prompt_is_made_of_parts_in_their_order_and_an_empty_one_leaves_no_trace() -> None:
    whole = system_prompt(PARTS).split("\n\n")
    assert [whole[0], *whole[2:6], whole[7]] == ["TIME", "BASE", "BRIEF", "USER", "MEMORY", "HISTORY"]
    assert whole[6] == '<available_agents>\n<agent name="mail">reads mail</agent>\n</available_agents>'
    without: Mapping[str, Mapping[str, Any]] = {
        "TIME": {"personal": replace(PARTS.personal, time="")},
        "BASE": {"agent": AgentSpec("Planner")},
        "BRIEF": {"brief": ""},
        "USER": {"personal": replace(PARTS.personal, user="")},
        "MEMORY": {"personal": replace(PARTS.personal, memory="")},
        whole[6]: {"roster": ()},
        "HISTORY": {"personal": replace(PARTS.personal, history="")},
    }
    for part, change in without.items():
        assert system_prompt(replace(PARTS, **change)).split("\n\n") == [each for each in whole if each != part]


def trimmed(service: Bench) -> list[dict[str, Any]]:
    rows = service.sql("select payload from events where type = 'context.trimmed' order by seq")
    return [json.loads(row["payload"]) for row in rows]


async def remember(service: Bench, count: int) -> None:
    """Let the memory agent store so many facts."""
    facts = [{"content": f"fact {number:03} " + "x" * 50, "category": "work"} for number in range(count)]
    for at in range(0, count, 20):
        service.model.scripts["Keeper"] = [call("extract_memory", facts=facts[at : at + 20]), say("kept")]
        await service.run("Keeper", user="alex")


@requirement("S0-TB-1", "S0-CTX-6")
async def test_what_is_known_of_a_user_is_told_within_the_budget_and_the_newest_of_it(tmp_path: Path) -> None:
    keeper = "  Keeper: {memory: true}\n"
    budget = config().replace("strategy: plan,", "strategy: plan, context: {budget: 200},")
    scripts = {**WORKERS, "Planner": [plan(A)], "Composer": [say("as you said, " + "y" * 200)]}
    async with bench(tmp_path, budget + keeper + PEOPLE, scripts) as service:
        bare = await service.run("Assistant", "hello", user="alex")
        fixed = tokens_of(len(service.model.of("Planner")[0].system.encode()))
        await remember(service, 30)
        for _ in range(3):
            child, _ = await service.dispatcher.chat_queue.accept(Order("", "so?", user="alex"))
            ended = await service.ended(child.id)
            assert ended.status == bare.status == "completed"
        for agent in ("Planner", "Composer"):
            system = service.model.of(agent)[-1].system
            assert "older left out: there is no room for more]" in system
        planner = service.model.of("Planner")[-1].system
        marks = tokens_of(2 * len(b"<user_memory>\n[999 older left out: there is no room for more]\n</user_memory>\n\n"))
        assert tokens_of(len(planner.encode())) <= fixed + 200 + marks
        assert ("fact 029" in planner, "fact 000" in planner) == (True, False)
        assert trimmed(service)[-1]["left_out"].keys() == {"memory", "history"}
        assert trimmed(service)[-1]["budget"] == 200


@requirement("S0-CTX-6", "S0-TB-1", "S0-SA-2")
async def test_results_that_are_too_long_are_shared_out_and_the_rest_can_be_read(tmp_path: Path) -> None:
    long = " ".join(f"{number} שלום</step>" for number in range(4_000))

    def reads_on(request: Request) -> Turn:
        told = request.messages[0].text
        at = int(told.partition("offset=")[2].partition(")")[0])
        return call("read_result", execution_id="step_1", offset=at)

    scripts = {**WORKERS, "A": [say(long)], "B": [reads_on, say("beta")], "Planner": [plan(A, B, C)]}
    async with bench(tmp_path, config(), scripts) as service:
        ended = await service.run("Assistant")

        assert ended.status == "completed"
        first, second = service.model.of("B")
        told = first.messages[0].text
        assert tokens_of(len(told.encode())) <= 4_000 + 100
        assert told.count("</step>") == 1
        shown = told.partition('status="completed">\n')[2].partition("\n[cut after")[0].replace("</~step>", "</step>")
        page = answer(second)
        assert page["total"] == len(long)
        assert long.startswith(shown + restored(page["text"])), "what follows begins where the cut is"
        assert page["offset"] == len(shown)
        composer = service.model.of("Composer")[0].messages[0].text
        assert 4_000 < tokens_of(len(composer.encode())) <= 8_000 + 300
        assert "read_result" not in composer, "who has no tools is not told to use one"
        assert [(each["step_id"], each["cut"], each["budget"]) for each in trimmed(service)] == [
            ("step_2", ["step_1"], 4_000),
            ("step_3", ["step_1"], 4_000),
            ("composer", ["step_1"], 8_000),
        ]
        [row] = service.sql("select input_tokens, output_tokens from executions where step_id = 'step_2'")
        assert row == {"input_tokens": 20, "output_tokens": 10}


async def test_a_revision_is_told_within_its_budget_whatever_a_step_brought_or_failed_with(tmp_path: Path) -> None:
    huge = json.dumps({"needsReplan": True, "found": "z" * 500_000})
    planned = iter([plan(A, B), plan(C)])
    scripts = {**WORKERS, "Planner": lambda _: next(planned), "A": [say(huge)]}
    async with bench(tmp_path, config(), scripts) as service:
        await service.run("Assistant")

        revising = service.model.of("Planner")[1].messages[0].text
        assert tokens_of(len(revising.encode())) <= 8_000 + 800
        [event] = service.sql("select length(payload) as size from events where type = 'plan.replanning'")
        assert event["size"] < 10_000, "an event is no place for a result"


@requirement("S0-MH-10")
@pytest.mark.parametrize("layer", ["memory", "history"])
async def test_a_user_is_answered_when_memory_or_history_cannot_be_read(tmp_path: Path, layer: str) -> None:
    async with bench(tmp_path, config() + PEOPLE, {**WORKERS, "Planner": [plan(A)]}) as service:
        damage = "alter table facts rename to gone" if layer == "memory" else _UNREADABLE
        with closing(sqlite_library().connect(str(service.database))) as connection, connection:
            connection.execute(damage)
        ended = await service.run("Assistant", "hello", user="alex")

        assert ended.result is not None
        assert (ended.result.text, ended.result.outcome) == ("all done", "completed")
        told = service.sql("select payload from events where type = 'context.degraded'")
        layers = [json.loads(row["payload"])["layer"] for row in told]
        assert layers == [layer, layer], "the planner and the composer went without"


_UNREADABLE = f"""
    insert into chat_messages (id, user_id, role, content, created_at)
    values ('one', 'alex', 'user', 'hello', '{stamp(datetime.now(UTC) - timedelta(hours=1))}, or so')"""
"""A message whose date nobody can read."""
