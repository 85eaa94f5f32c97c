"""Decisions of a route: which messages are planned, by which rules, and what becomes of an answer that is no decision."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runner.llm.protocol import Request
from runner.service.order import Order
from runner.strategies.route.classify import Routing, read_routing
from runner.text import language_of
from tests.runner.strategies.plan.planned import plan, step
from tests.runner.strategies.route.routed import EVERYBODY, coordinator, decide, judged, said_before
from tests.support.models import Turn, fail, hang, say, shared
from tests.support.requirement import requirement
from tests.support.service import bench

RULES = {
    "S4-TR-1": 'several agents must work together ("find a contact and email them")',
    "S4-TR-2": 'one agent must do different things in order: delete and create or add ("delete all tasks and add banana',
    "S4-TR-3": 'update and create ("update the event and create a reminder")',
    "S4-TR-4": "delete something recurring but keep particular instances of it",
    "S4-FA-1": "it is a single operation: one create, delete, update, get or list",
    "S4-FA-2": 'it is one kind of operation on many things ("delete all completed tasks")',
    "S4-FA-3": "it is one operation with a filter or an exception",
    "S4-RO-3": "A greeting, small talk or a general question is `general`, with no agents and no plan",
}


def message(request: Request) -> str:
    return request.messages[0].text


@requirement("S4-TR-1", "S4-TR-2", "S4-TR-3", "S4-TR-4", "S4-FA-1", "S4-FA-2", "S4-FA-3", "S4-RO-1", "S4-RO-2", "S4-RO-3")
async def test_what_is_planned_and_what_is_not_is_told_to_the_classifier_and_done_as_it_decides(tmp_path: Path) -> None:
    labels = {each.message: each for each in judged()}

    def judge(request: Request) -> Turn:
        label = labels[message(request)]
        return decide(*label.agents, plan=label.plan)

    def draft(request: Request) -> Turn:
        agents = labels[message(request)].agents
        return plan(*(step(f"s{number}", agent, "a part of it") for number, agent in enumerate((*agents, agents[0]))))

    everybody = {agent: [say("done")] for agent in (*EVERYBODY, "Respondent", "Composer")}
    async with bench(tmp_path, coordinator(), {"Classifier": judge, "Planner": draft, **everybody}) as service:
        orders = [Order("Coord", text, user="dana") for text in labels]
        started = [await service.dispatcher.start(order) for order in orders]
        for label, child in zip(labels.values(), started, strict=True):
            ended = await service.ended(child.id)
            assert (ended.status, ended.result and ended.result.outcome) == ("completed", "completed"), label
            below = service.sql("select agent, role, depth from executions where root_execution_id = ?", ended.id)
            roles = Counter(row["role"] for row in below)
            assert roles["classifier"] == 1
            assert (roles["planner"], roles["direct"], roles["answer"]) == (
                label.plan, not label.plan and bool(label.agents), not label.agents,
            ), label  # fmt: skip
            worked = [row["agent"] for row in below if row["role"] in ("step", "direct")]
            assert set(worked) == set(label.agents)

        prompt = " ".join(service.model.of("Classifier")[0].system.split())
        planned, direct = prompt.index("`requiresPlan` is true when"), prompt.index("`requiresPlan` is false when")
        for rule, text in RULES.items():
            at = prompt.index(text)
            assert (planned < at < direct) if rule.startswith("S4-TR") else direct < at, rule
        for request in service.model.requests:  # whoever handles it directly has the user's own words, and no others
            if request.agent in EVERYBODY and labels.get(message(request)) is not None:
                assert len(request.messages) == 1
    assert {each.rule for each in labels.values()} == set(RULES)


@requirement("S4-ID-2", "S4-ID-4", "S4-RO-3", "X-39")
@pytest.mark.parametrize(
    ("answer", "agents", "planned"),
    [
        ({"primaryIntent": "gmail", "involvedAgents": ["calendar", "gmail"]}, "calendar gmail", True),
        ({"primaryIntent": "calendar", "involvedAgents": ["calendar"], "requiresPlan": True}, "calendar", True),
        ({"primaryIntent": "calendar", "involvedAgents": ["calendar"], "requiresPlan": False}, "calendar", False),
        ({"primaryIntent": "calendar"}, "calendar", False),
        ({"primaryIntent": "Second-Brain", "involvedAgents": []}, "second_brain", False),
        ({"primaryIntent": "multi-task"}, "calendar gmail database second_brain", True),
        ({"primaryIntent": "multi_agent", "involvedAgents": [], "requiresPlan": False}, " ".join(EVERYBODY), True),
        ({"primary_intent": "mail", "involved_agents": ["GMAIL", "gmail", "fax", 7, None]}, "gmail", False),
        ({"involvedAgents": "calendar", "requiresPlan": "true"}, "calendar", True),
        ({"primaryIntent": "general", "involvedAgents": ["gmail"], "requiresPlan": True}, "", False),
        ({"primaryIntent": "fax", "involvedAgents": ["fax"], "requiresPlan": True}, "", False),
        ({"primaryIntent": ["gmail"], "involvedAgents": {"gmail": True}}, "", False),
    ],
)
def test_a_decision_is_completed_from_what_it_says(answer: dict[str, Any], agents: str, planned: bool) -> None:
    decision = read_routing(json.dumps(answer), EVERYBODY)
    assert (decision.agents, decision.needs_plan) == (tuple(agents.split()), planned)
    assert bool(decision.agents) == (decision.intent != "general")


@requirement("S4-ID-3", "S4-ID-1")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('It is:\n```json\n{"primaryIntent": "gmail", "confidence": 3}\n```\nNo?', Routing("gmail", ("gmail",), False, 1)),
        ('{"primaryIntent": "gmail", "confidence": 1' + "0" * 400 + "}", Routing("gmail", ("gmail",), False, 1)),
        ('{"primaryIntent": "gmail", "confidence": -1e999}', Routing("gmail", ("gmail",), False, 0)),
        ('{"primaryIntent": "gmail", "confidence": NaN}', Routing("gmail", ("gmail",), False, None)),
        ('{"primaryIntent": "gmail", "confidence": true}', Routing("gmail", ("gmail",))),
        (r'well: {"primaryIntent": "gmail \ud800", "involvedAgents": ["gmail"]}', Routing("gmail ?", ("gmail",))),
        ('{"primaryIntent": "' + "x" * 10_000 + '", "involvedAgents": ["gmail"]}', Routing("x" * 100, ("gmail",))),
        ("", Routing()),
        ("gmail", Routing()),
        ("null", Routing()),
        ('["gmail"]', Routing()),
        ('{"primaryIntent": "gmail"', Routing()),
        ("[" * 100_000, Routing()),
        ('{"a":' * 50_000, Routing()),
    ],
)  # fmt: skip
def test_an_answer_that_is_no_decision_is_repaired_or_means_a_general_message(answer: str, expected: Routing) -> None:
    assert read_routing(answer, EVERYBODY) == expected


@requirement("S4-ID-3")
async def test_a_classifier_that_fails_stays_out_or_says_something_else_leads_to_an_answer_in_words(tmp_path: Path) -> None:
    plan = say('{"steps": [{"agent": "gmail", "task": "send it"}]}')
    scripts = {
        "Classifier": shared(fail(recoverable=False), plan),
        "Idle": [hang()],
        "Respondent": [say("What do you need?")],
    }
    more = """
  Hasty: {strategy: route, sub_agents: [gmail], route: {classifier: Idle}}
  Idle: {strategy: synthesis, timeout: 300ms}
"""
    async with bench(tmp_path, coordinator(more=more), scripts) as service:
        for agent in ("Coord", "Coord", "Hasty"):
            ended = await service.run(agent, "do something", user="dana")
            assert ended.result is not None
            assert (ended.status, ended.result.text) == ("completed", "What do you need?")
        assert service.statuses()["Classifier"] == ["failed", "completed"]
        assert service.statuses()["Idle"] == ["timed_out"]
        assert set(service.statuses()) == {"Coord", "Hasty", "Classifier", "Idle", "Respondent"}
        decided = service.sql("select payload from events where type = 'route.decided'")
        assert [json.loads(row["payload"])["agents"] for row in decided] == [[], [], []]


@requirement("S4-EX-7", "S4-LX-1", "S4-PL-7")
async def test_router_and_planner_see_the_last_messages_and_know_the_language_of_the_user(tmp_path: Path) -> None:
    scripts = {
        "Classifier": [decide("calendar", "gmail", plan=True)],
        "Planner": [plan(step("a", "calendar", "תבדוק"), step("b", "gmail", "תכתוב"))],
        "calendar": [say("בוצע")],
        "gmail": [say("נשלח")],
        "Composer": [say("הכול בוצע")],
    }
    async with bench(tmp_path, coordinator(), scripts) as service:
        await said_before(service, "eve", *(f"line {number}" for number in range(1, 8)))
        told = {}
        for language, text in (("he", "תבדוק מתי אני פנוי ותכתוב לרון"), ("en", "look when I am free and write to Ron")):
            await service.run("Coord", text, user="eve")
            for agent in ("Classifier", "Planner", "Composer"):
                told[agent] = service.model.of(agent)[-1].system
                assert f"<language>{language}</language>" in told[agent], agent
        for agent in ("Classifier", "Planner"):
            assert [line for line in range(1, 8) if f">line {line}</said>" in told[agent]] == [4, 5, 6, 7]
        assert not any("<conversation>" in request.system for agent in EVERYBODY for request in service.model.of(agent))

    changed = coordinator("route: {history: 2}")
    async with bench(tmp_path, changed, scripts) as service:
        await service.run("Coord", "look when I am free and write to Ron", user="eve")
        for agent in ("Classifier", "Planner"):
            assert service.model.of(agent)[0].system.count("</said>") == 2


@requirement("S4-LX-1")
@pytest.mark.parametrize(
    ("text", "locale", "language"),
    [
        ("תפנה את כל האירועים השבוע", "en-US", "he"),
        ("clear all events of this week", "he-IL", "en"),
        ("supprime tous les événements", "fr-FR", "fr"),
        ("תשלח את https://example.com/a/rather/long/address/in/latin/letters לרון", "en-US", "he"),
        ("delete הפגישה עם רון מחר", "en-US", "he"),
        ("видали всі події", "uk-UA", "uk"),
        ("удали все события", "en-US", "ru"),
        ("همه رویدادها را پاک کن", "fa-IR", "fa"),
        ("会議を削除してください", "en-US", "ja"),
        ("删除所有会议", "en-US", "zh"),
        ("obriši sve", "sr-Latn-RS", "sr"),
        ("10:30?", "he-IL", "he"),
        ("", "", "en"),
    ],
)
def test_the_language_is_that_of_the_message_as_far_as_letters_tell(text: str, locale: str, language: str) -> None:
    assert language_of(text, locale) == language
