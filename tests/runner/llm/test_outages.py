"""A model API that fails for a while, through a whole service: what is outlasted, what is told meanwhile, what is kept."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from runner.service.order import Order
from server.app import Blueprint, open_service
from tests.support.messages_api import (
    Answer,
    MessagesApi,
    Received,
    break_off,
    encode_event,
    messages_api,
    refuse,
    reply,
    text,
    tool_use,
)
from tests.support.models import ScriptedModel
from tests.support.service import Bench, settings_of

OUTAGE = float(os.environ.get("OUTRIDER_OUTAGE_SECONDS", "0.7"))
"""How long the API is overloaded. With 45 it is retried as is built in, and the whole file takes four minutes."""
RETRY = "first_wait: 100ms, longest_wait: 300ms" if OUTAGE < 5 else ""

CONFIG = """
defaults: {{model: m, limits: {{timeout: 300s, agent_timeout: 200s, {limits}}}}}
models:
  m: {{model: claude-sonnet-5-5, base_url: "{url}", price: {{input: 2, output: 10}}, retry: {{{retry}}}}}
  other: {{model: claude-haiku-5-5, base_url: "{other}", price: {{input: 1, output: 1}}}}
agents:
  Scout: {{description: scouts, {scout}}}
  Lead: {{sub_agents: [Scout, Aside], {lead}}}
  Aside: {{description: asks another model, model: other}}
  Planner: {{strategy: plan, description: plans, sub_agents: [Scout]}}
  Reporter: {{strategy: iterate, description: iterates}}
  Router: {{strategy: route, description: routes, sub_agents: [Scout]}}
agent_chains:
  look: {{stages: [{{name: first, agents: [Scout]}}, {{name: second, agents: [Scout]}}]}}
"""
ENVIRON = {"ANTHROPIC_API_KEY": "canary-key-of-the-test"}
BUSY = refuse(529, "overloaded_error", "Overloaded by CANARY", request_id="req_9")
SLOW = "for: 60s, first_wait: 30s, longest_wait: 30s"
"""Waits that only something else than their end can end within a test."""


@asynccontextmanager
async def service(folder: Path, api: MessagesApi, **settings: str) -> AsyncIterator[Bench]:
    """A service whose models are behind `api`."""
    told = {"url": api.url, "other": api.url, "retry": RETRY, "limits": "", "scout": "", "lead": "", **settings}
    settings_made = settings_of(folder, CONFIG.format(**told))
    async with open_service(Blueprint(settings_made, folder / "outrider.db", environ=ENVIRON)) as dispatcher:
        yield Bench(dispatcher, ScriptedModel({}), folder / "outrider.db")


class Cast:
    """Answers for every role there is, by the form its prompt asks for."""

    def __init__(self, *, broken_for: float = 0.0) -> None:
        self._broken_for = broken_for
        self._since: float | None = None
        self.refused = 0
        self._planned = 0

    def __call__(self, received: Received) -> Answer:
        self._since = time.monotonic() if self._since is None else self._since
        if time.monotonic() - self._since < self._broken_for:
            self.refused += 1
            return BUSY
        told = str(received.body.get("system"))
        if "nextTask" in told and "finished" in told:
            self._planned += 1
            more = {"nextTask": "look", "finished": False} if self._planned == 1 else {"finished": True}
            return reply(text(json.dumps(more)))
        if "involvedAgents" in told:
            decision = {"primaryIntent": "Scout", "involvedAgents": ["Scout"], "requiresPlan": False, "confidence": 0.9}
            return reply(text(json.dumps(decision)))
        if '"steps"' in told or "depends_on" in told:
            steps = [{"id": "step_1", "agent": "Scout", "task": "look"}]
            return reply(text(json.dumps({"analysis": "as wanted", "steps": steps})))
        if '"success"' in told or "success" in told:
            return reply(text(json.dumps({"success": True, "result": "found"})))
        return reply(text("found"))


@pytest.mark.parametrize("name", ["Scout", "look", "Planner", "Reporter", "Router"])
async def test_every_strategy_outlasts_an_overloaded_api_and_tells_it_meanwhile(name: str, tmp_path: Path) -> None:
    cast = Cast(broken_for=OUTAGE)
    async with messages_api(cast) as api, service(tmp_path, api) as bench:
        started = await bench.dispatcher.start(Order(name, "look around"))
        with anyio.fail_after(OUTAGE + 30):
            ended = await bench.dispatcher.wait(started.id)
        told = bench.sql("select payload from events where type = 'execution.progress' order by seq")
        waiting = bench.sql("select waiting_for from executions")
    assert (ended.status, ended.result.outcome if ended.result else None) == ("completed", "completed")
    assert cast.refused > 1
    waits = [payload for row in told if (payload := json.loads(row["payload"])).get("waiting_for") == "model"]
    assert waits
    assert all(wait["action"].startswith("model API overloaded (529), retrying in ") for wait in waits)
    assert all(", giving up in " in wait["action"] for wait in waits)
    assert waits[0]["provider"] == {
        "status": 529, "type": "overloaded_error", "message": "Overloaded by CANARY", "request_id": "req_9",
    }  # fmt: skip
    assert {row["waiting_for"] for row in waiting} == {None}
    assert not any(b"CANARY" in received.raw for received in api.requests)


# -- what ends a wait --------------------------------------------------------------------------------------------------


def first_then(*answers: Answer) -> Callable[[Received], Answer]:
    """Lead sends Scout, who answers at once; what Lead says afterwards is given."""
    left = list(answers)

    def answer(received: Received) -> Answer:
        messages = received.body["messages"]
        if messages[0]["content"][0]["text"] != "lead":
            return reply(text("Scout found a leak"))
        if len(messages) == 1:
            order = tool_use("dispatch_agent", {"name": "Scout", "task": "look"})
            return reply(text("Half is known."), order)
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


async def waits_for_model(bench: Bench) -> None:
    """Return when an execution waits for its model."""
    await bench.until(lambda: bench.sql("select id from executions where waiting_for = 'model'"))


async def test_a_deadline_that_comes_near_during_a_wait_hands_up_what_there_is(tmp_path: Path) -> None:
    async with (
        messages_api(first_then(BUSY)) as api,
        service(tmp_path, api, retry=SLOW, lead="timeout: 2s") as bench,
    ):
        ended = await bench.run("Lead", "lead")
    assert ended.result is not None
    assert (ended.status, ended.result.outcome, ended.result.reason) == ("completed", "partial", "time_budget")
    assert "Half is known." in ended.result.text
    assert "Scout found a leak" in ended.result.text
    assert ended.result.errors[0].code == "overloaded"
    assert ended.elapsed < 2


async def test_a_wish_for_a_conclusion_ends_a_wait_at_once(tmp_path: Path) -> None:
    def answer(received: Received) -> Answer:
        concludes = received.body.get("tool_choice") == {"type": "none"}
        return reply(text("so far, so good")) if concludes else before(received)

    before = first_then(BUSY)
    async with messages_api(answer) as api, service(tmp_path, api, retry=SLOW) as bench:
        started = await bench.dispatcher.start(Order("Lead", "lead"))
        await waits_for_model(bench)
        began = anyio.current_time()
        await bench.dispatcher.ask_to_wrap_up(started.id, "a person")
        ended = await bench.ended(started.id)
        assert anyio.current_time() - began < 2
    assert ended.result is not None
    assert (ended.status, ended.result.outcome, ended.result.text) == ("completed", "partial", "so far, so good")


async def test_a_cancel_ends_a_wait_at_once_and_asks_no_more(tmp_path: Path) -> None:
    async with messages_api(BUSY) as api, service(tmp_path, api, retry=SLOW) as bench:
        started = await bench.dispatcher.start(Order("Scout", "look"))
        await waits_for_model(bench)
        asked, began = len(api.requests), anyio.current_time()
        await bench.dispatcher.cancel(started.id, "a person", "enough")
        ended = await bench.ended(started.id)
        assert anyio.current_time() - began < 1
        assert len(api.requests) == asked
        assert bench.sql("select waiting_for, cost_usd from executions") == [{"waiting_for": None, "cost_usd": 0.0}]
    assert ended.status == "cancelled"


@pytest.mark.parametrize(
    "limits", ["max_concurrent_model_calls: 1", "max_cost_usd: 0.05"], ids=["places for calls", "a budget for all"]
)
async def test_a_call_that_waits_holds_nothing_that_others_need(limits: str, tmp_path: Path) -> None:
    """Scout's API is overloaded; Aside asks another model and must not wait for Scout."""

    def answer(received: Received) -> Answer:
        messages = received.body["messages"]
        if messages[0]["content"][0]["text"] == "aside":
            return reply(text("done meanwhile"))
        if messages[0]["content"][0]["text"] == "scout":
            return BUSY
        orders = [tool_use("dispatch_agent", {"name": name, "task": name.lower()}, name) for name in ("Scout", "Aside")]
        return reply(*orders) if len(messages) == 1 else reply(text("waiting"))

    async with messages_api(answer) as api, service(tmp_path, api, retry=SLOW, limits=limits) as bench:
        started = await bench.dispatcher.start(Order("Lead", "lead"))
        await waits_for_model(bench)
        with anyio.fail_after(5):
            await bench.until(lambda: "completed" in bench.statuses().get("Aside", []))
        assert bench.statuses()["Scout"] == ["running"]
        await bench.dispatcher.cancel(started.id, "a person", "enough")
        await bench.ended(started.id)


# -- what the provider said --------------------------------------------------------------------------------------------

PAGE = b"<!DOCTYPE html><html><head><title>Blocked</title><style>p{}</style></head><body><p>by Zscaler &amp; Co</p></body>"


@pytest.mark.parametrize(
    ("fault", "code", "said", "hint"),
    [
        (
            refuse(404, "not_found_error", "model: claude-sonnet-5-5"),
            "not_found",
            "model: claude-sonnet-5-5",
            "the endpoint knows no model `claude-sonnet-5-5`: correct `models.m.model` at config.yaml:4",
        ),
        (
            Answer(404, body=b'{"detail": "Not Found"}'),
            "not_found",
            "Not Found",
            "check the address of the endpoint: `models.m.base_url`, or `ANTHROPIC_BASE_URL`",
        ),
        (
            refuse(403, "permission_error", "Your organization may not use this model."),
            "permission",
            "Your organization may not use this model.",
            "check what the key in `ANTHROPIC_API_KEY` may use, such as the model `claude-sonnet-5-5`",
        ),
        (
            refuse(400, "invalid_request_error", "prompt is too long: 220000 tokens > 200000 maximum"),
            "too_large",
            "prompt is too long: 220000 tokens > 200000 maximum",
            "shorten the task, or let fewer results be delivered in full",
        ),
        (
            refuse(403, "forbidden", "Unsupported country, region or territory"),
            "region",
            "Unsupported country, region or territory",
            "use an endpoint that serves your region: `models.m.base_url`",
        ),
        (
            refuse(401, "authentication_error", "invalid x-api-key canary-key-of-the-test"),
            "authentication",
            "invalid x-api-key ***",
            "check the key in `ANTHROPIC_API_KEY`: the provider rejects it",
        ),
        (
            Answer(403, body=PAGE),
            "permission",
            "Blocked by Zscaler & Co",
            "check what the key in `ANTHROPIC_API_KEY` may use, such as the model `claude-sonnet-5-5`",
        ),
        (
            break_off("authentication_error", "key\nrevoked \x1b[31m"),
            "authentication",
            "key revoked [31m",
            "check the key in `ANTHROPIC_API_KEY`: the provider rejects it",
        ),
        (
            refuse(422, "made_up", "x" * 600),
            "invalid_request",
            "x" * 499 + "…",
            "check `models.m` in the configuration, and that the endpoint knows this model's settings",
        ),
    ],
    ids=["model", "address", "permission", "prompt", "region", "key", "page", "stream", "long"],
)
async def test_the_advice_follows_what_the_provider_said(
    fault: Answer, code: str, said: str, hint: str, tmp_path: Path
) -> None:
    async with messages_api(fault) as api, service(tmp_path, api) as bench:
        ended = await bench.run("Scout", "look")
        assert len(api.requests) == 1
    assert ended.result is not None
    problem = ended.result.errors[0]
    assert (problem.code, problem.recommendation) == (code, hint)
    assert problem.context["provider"]["message"] == said
    assert ended.error == f"{problem.message}; the provider said: {said}"
    assert said not in f"{problem.message} {ended.result.text}"  # which models above it read


async def test_no_model_of_the_tree_reads_what_a_provider_said(tmp_path: Path) -> None:
    def answer(received: Received) -> Answer:
        messages = received.body["messages"]
        if messages[0]["content"][0]["text"] == "look":
            return refuse(400, "invalid_request_error", "CANARY from the provider")
        if len(messages) == 1:
            return reply(tool_use("dispatch_agent", {"name": "Scout", "task": "look"}))
        if len(messages) == 3:
            (child,) = bench.sql("select id from executions where agent = 'Scout'")
            return reply(tool_use("get_result", {"execution_id": child["id"]}, "toolu_2"))
        return reply(text("noted"))

    async with messages_api(answer) as api, service(tmp_path, api) as bench:
        ended = await bench.run("Lead", "lead")
        (child,) = bench.sql("select error from executions where agent = 'Scout'")
    assert ended.status == "completed"
    assert "CANARY" in child["error"]
    assert not any(b"CANARY" in received.raw for received in api.requests)
    assert any(b"answered with status 400 (invalid_request_error)" in received.raw for received in api.requests)


async def test_the_same_failure_in_other_words_is_one_error_that_counts(tmp_path: Path) -> None:
    def answer(_: Received) -> Answer:
        return refuse(400, "invalid_request_error", f"{len(api.requests)} images are too many")

    async with messages_api(answer) as api, service(tmp_path, api) as bench:
        for _ in range(2):
            await bench.run("Scout", "look")
    (error,) = bench.sql("select recurrence_count, message from error_records")
    assert error["recurrence_count"] == 2
    assert error["message"].endswith("the provider said: 2 images are too many")


@pytest.mark.parametrize("name", ["look", "Planner", "Reporter", "Router"])
@pytest.mark.parametrize("all_of_them", [True, False], ids=["first call", "the work"])
async def test_what_the_provider_said_and_what_to_do_come_up_to_the_top(
    name: str, all_of_them: bool, tmp_path: Path
) -> None:
    """Whoever was refused below: planners and classifiers, or the agents they send."""
    cast, refused = Cast(), refuse(402, "billing_error", "Your credit is used up", request_id="req_1")

    def answer(received: Received) -> Answer:
        given = cast(received)
        return refused if all_of_them or b"found" in b"".join(map(encode_event, given.events)) else given

    async with messages_api(answer) as api, service(tmp_path, api) as bench:
        ended = await bench.run(name, "look around")
    assert ended.result is not None
    problem = ended.result.errors[0]
    assert ended.status == "failed"
    assert (ended.error or "").endswith("; the provider said: Your credit is used up (request req_1)")
    assert (problem.recommendation or "").startswith("add credit or raise the spending limit")
    assert not problem.recoverable
