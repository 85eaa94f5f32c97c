"""Permissions: an agent works for a user who has enabled it and connected what it needs, whoever asks for it, and how."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from runner.errors import Refusal
from runner.service.order import Order
from tests.runner.strategies.plan.planned import plan, step, steps
from tests.runner.strategies.route.routed import EVERYBODY, coordinator, decide
from tests.support.face import face
from tests.support.models import hang, say, shared
from tests.support.reading import dispatch, results
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

MATRIX = {
    "eve": {"calendar": "", "gmail": "", "database": "", "second_brain": ""},
    "olaf": {"calendar": "connection", "gmail": "connection", "database": "", "second_brain": ""},
    "bo": {"calendar": "", "gmail": "capability", "database": "capability", "second_brain": ""},
    "nic": {"calendar": "capability", "gmail": "capability", "database": "capability", "second_brain": ""},
}
"""What a user lacks for an agent."""
TOLD = {"capability": "is not part of what you have enabled", "connection": "needs your google account to be connected"}

MORE = """
  Lead: {description: leads, sub_agents: [gmail, second_brain]}
  Mine: {strategy: synthesis, requires: {capabilities: [gmail]}}
  Warden: {strategy: route, description: guards, sub_agents: [second_brain], route: {classifier: Mine}}
agent_chains:
  alone: {stages: [{name: one, agents: [gmail]}, {name: two, agents: [second_brain]}]}
  both: {stages: [{name: one, agents: [gmail, second_brain]}]}
  all: {stages: [{name: one, agents: [gmail, second_brain], success_policy: all}]}
  merged: {stages: [{name: one, agents: [{name: second_brain, replicas: 2}], synthesis: Mine}]}
"""


def blocked(service: Bench, root: str) -> list[tuple[str, str, str]]:
    rows = service.sql(
        "select agent, error_type, error from executions where root_execution_id = ? and status = 'blocked'", root
    )
    return [(row["agent"], row["error_type"], row["error"]) for row in rows]


@requirement("S4-PE-1", "S4-PE-2", "S4-PE-3", "S4-PE-4", "X-33")
async def test_each_agent_demands_exactly_the_connection_and_the_entitlement_it_needs(tmp_path: Path) -> None:
    everybody = {agent: [say(f"{agent} did it")] for agent in EVERYBODY}
    classify = shared(*(decide(agent) for _ in MATRIX for agent in EVERYBODY))
    async with bench(tmp_path, coordinator(), {**everybody, "Classifier": classify}) as service:
        for user, agents in MATRIX.items():
            for agent, missing in agents.items():
                ended = await service.run("Coord", "do it", user=user)
                assert ended.result is not None
                if not missing:
                    assert (ended.result.outcome, ended.result.text) == ("completed", f"{agent} did it")
                    continue
                assert (ended.status, ended.result.outcome) == ("completed", "blocked")
                assert ended.result.text == f"I am not allowed to do this for you: `{agent}` {TOLD[missing]}."
                [(name, kind, why)] = blocked(service, ended.id)
                assert (name, kind) == (agent, "permission_denied")
                assert f"`{user}`" in why
        asked = {agent: len(service.model.of(agent)) for agent in EVERYBODY}
        assert asked == {agent: sum(not lacks[agent] for lacks in MATRIX.values()) for agent in EVERYBODY}


@requirement("S4-PE-3", "S4-PE-4", "X-33")
async def test_no_agent_is_started_that_the_user_may_not_use_on_any_path(tmp_path: Path) -> None:
    scripts = {
        "Classifier": [decide("gmail", "second_brain", plan=True)],
        "Planner": [plan(step("a", "gmail", "send it"), step("b", "second_brain", "note it"))],
        "Composer": [say("I noted it, but may not send it.")],
        "Lead": [dispatch("gmail"), lambda request: say(f"told: {results(request)[0]['content']}")],
        "second_brain": [say("noted")],
        "Synthesizer": [say("merged")],
    }
    async with bench(tmp_path, coordinator(more=MORE), scripts) as service:
        for user, why in (
            ("bo", "needs the capability `gmail`"),
            (None, "requires a user with `gmail`, `google`, but no user was given"),
        ):
            with pytest.raises(Refusal, match=why) as refused:
                await service.dispatcher.start(Order("gmail", "send it", user=user))
            assert (refused.value.kind, bool(refused.value.hint)) == ("permission_denied", True)
        assert service.statuses() == {}

        by_model = (await service.run("Lead", user="bo")).result
        assert by_model is not None
        assert "needs the capability `gmail`" in by_model.text

        ended = await service.run("Coord", "send and note it", user="bo")
        assert ended.result is not None
        assert (ended.result.outcome, steps(service)) == ("partial", {"a": "blocked", "b": "completed"})

        ends = {}
        for chain in ("alone", "both", "all"):
            ended = await service.run(chain, user="bo")
            [(agent, kind, why)] = blocked(service, ended.id)
            assert (agent, kind, "`gmail`" in why) == ("gmail", "permission_denied", True)
            assert ended.result is not None
            ends[chain] = (ended.status, ended.result.text)
        assert ends["both"] == ("completed", "noted")
        assert {ends[chain][0] for chain in ("alone", "all")} == {"failed"}
        assert "needs the capability `gmail`" in ends["alone"][1]

        merged = await service.run("merged", user="bo")
        assert merged.result is not None
        assert (merged.status, merged.result.reason) == ("completed", "synthesis_failed")
        assert merged.result.text.count("noted") == 2
        warden = await service.run("Warden", user="bo")
        assert (warden.status, warden.error) == ("failed", "`Mine` needs the capability `gmail`, which `bo` does not have")
        assert not service.model.of("gmail")
        assert not service.model.of("Mine")


@requirement("S4-PE-3")
async def test_a_client_is_told_who_may_use_an_agent(tmp_path: Path) -> None:
    config = coordinator(more="chat: {agent: Coord}\n")
    scripts = {"Classifier": [decide("gmail")], "gmail": [say("sent")]}
    async with face(tmp_path, config, scripts) as opened, opened.client() as client:
        for tool in ("dispatch_agent", "run_agent"):
            problem = await client.refused(tool, name="gmail", task="send it")
            assert "requires a user with" in problem["message"]
            assert "send_user_message" in problem["hint"]
        assert opened.bench.statuses() == {}
        allowed = await client.call("send_user_message", user="eve", text="send it")
        denied = await client.call("send_user_message", user="olaf", text="send it")
        assert allowed["answer"] == "sent"
        assert denied["answer"] == f"I am not allowed to do this for you: `gmail` {TOLD['connection']}."


@requirement("S4-PE-3")
async def test_what_was_allowed_once_is_asked_again_when_it_goes_on(tmp_path: Path) -> None:
    revoked = coordinator().replace(
        "eve: {name: Eve, capabilities: [calendar, gmail, database]", "eve: {name: Eve, capabilities: [calendar]"
    )
    scripts = {
        "Classifier": shared(decide("gmail"), decide("gmail", plan=True)),
        "Planner": [plan(step("a", "gmail", "send it"), step("b", "gmail", "send more"))],
        "gmail": shared(say("sent"), hang(), hang()),
    }
    async with bench(tmp_path, coordinator(), scripts) as service:
        first = await service.run("gmail", "send it", user="eve")
        roots = [(await service.dispatcher.start(Order("Coord", "send", user="eve"))).id for _ in range(2)]
        with anyio.fail_after(10):
            await service.model.started("gmail", 3)

    async with bench(tmp_path, revoked, {}) as service:
        with pytest.raises(Refusal, match="needs the capability `gmail`") as refused:
            await service.dispatcher.resume(first.id, "and more")
        assert refused.value.kind == "permission_denied"
        assert await service.dispatcher.adopt() == 2
        ends = [await service.ended(root) for root in roots]
        assert not service.model.of("gmail")
        assert {each.status for each in ends} == {"failed"}
        rows = service.sql("select status, error from executions where agent = 'gmail' and status != 'completed'")
        assert {row["status"] for row in rows} == {"failed", "blocked"}
        assert all("needs the capability `gmail`" in row["error"] for row in rows)
