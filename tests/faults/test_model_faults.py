"""Every fault of a model API, through a whole service: rows, requests at the socket, tool runs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp  # noqa: F401 - imported here, or the first fault would be charged for it
import anthropic  # noqa: F401
import anyio
import pytest

from runner.llm.anthropic import AnthropicModel
from runner.llm.breaker import BreakerSettings
from server.app import Blueprint, open_service
from tests.faults.fault import Fault, contained
from tests.faults.model_fault import CALL, DONE, ModelFault
from tests.faults.model_faults import DEAD, FAULTS, INSTEAD, TLS, UNREACHABLE
from tests.support.local_tools import LocalTools
from tests.support.messages_api import Answer, Received, messages_api, refuse, reply, text, thinking, tool_use
from tests.support.models import ScriptedModel
from tests.support.requirement import requirement
from tests.support.service import Bench, OneModel, settings_of

CONFIG = """
defaults: {{model: m, retry: {{for: 300ms, first_wait: 10ms, longest_wait: 50ms}}}}
models:
  m: {{model: claude-sonnet-5-5, base_url: "{url}", price: {{input: 2, output: 10}}, {model}}}
  second: {{model: claude-haiku-5-5, base_url: "{url}", price: {{input: 1, output: 1}}}}
  third: {{model: claude-opus-5-5, base_url: "{url}"}}
agents:
  Lead: {{sub_agents: [Worker], max_concurrent_agents: 20}}
  Worker: {{description: works, {agent}}}
"""
ENVIRON = {"ANTHROPIC_API_KEY": "a-key"}


class Poked:
    """The tool `poke`, and how often it ran."""

    def __init__(self) -> None:
        self.places: list[Any] = []
        self.tools = LocalTools({"poke": self._poke})

    async def _poke(self, arguments: Mapping[str, Any]) -> str:
        self.places.append(arguments.get("where"))
        return "poked"


@asynccontextmanager
async def service(
    folder: Path, url: str, poked: Poked, *, model: str = "", agent: str = "", breaking: BreakerSettings | None = None
) -> AsyncIterator[Bench]:
    """A service whose models are behind `url`, with waits too short to be felt."""
    settings = settings_of(folder, CONFIG.format(url=url, model=model, agent=agent))
    adapter = AnthropicModel(settings.models, ENVIRON, breaking)
    blueprint = Blueprint(
        settings, folder / "outrider.db", models=OneModel(adapter), extra_tools=poked.tools.for_agents("Worker")
    )
    try:
        async with open_service(blueprint) as dispatcher:
            yield Bench(dispatcher, ScriptedModel({}), blueprint.database)
    finally:
        await adapter.close()


def ends(bench: Bench, agent: str = "Worker") -> list[dict[str, Any]]:
    """How the executions of an agent ended, with the first error of their results."""
    query = "select status, outcome, reason, error_type, error, turns, result from executions where agent = ?"
    rows = bench.sql(query, agent)
    for row in rows:
        result = json.loads(row.pop("result"))
        problem = result["errors"][0] if result["errors"] else {}
        row["code"], row["hint"], row["answer"] = problem.get("code"), problem.get("recommendation"), result["output"]
    return rows


def assert_acceptable(received: Received) -> None:
    """What the API demands of a conversation: no id twice, each call answered in the next message, nothing empty."""
    messages = received.body["messages"]
    called = [block["id"] for message in messages for block in message["content"] if block["type"] == "tool_use"]
    assert len(set(called)) == len(called)
    for message, following in zip(messages, [*messages[1:], None], strict=True):
        assert message["content"]
        wanted = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        if wanted:
            assert following is not None
            assert [block["tool_use_id"] for block in following["content"]] == wanted


# The transport warns of every body above a megabyte, which it sends at once; here that is what happens.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@requirement("S2-LE-17", "S2-CT-9")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))
async def test_a_fault_of_the_model_ends_as_the_page_says(fault: ModelFault, tmp_path: Path) -> None:
    poked = Poked()
    async with (
        messages_api(CALL, *fault.answers) as api,
        service(tmp_path, api.url, poked, model=fault.model, agent=fault.agent) as bench,
    ):
        async with contained(fault, "http", within=fault.within):
            await bench.run("Worker")
        (row,) = ends(bench)
        calls = bench.sql("select stop_reason, pricing from model_calls")
        announced = bench.sql("select seq from events where type = 'model.attempt'")

    assert (row["status"], row["outcome"], row["reason"]) == (fault.status, fault.outcome, fault.reason)
    assert (row["code"], row["error_type"]) == (fault.code, fault.reason if fault.status == "failed" else None)
    assert (fault.said or "") in str(row["error"] or row["answer"])
    assert bool(row["hint"]) == (fault.code is not None)
    assert fault.told in api.requests[-1].raw.decode()
    sent = len(api.requests)
    assert sent >= fault.requests if fault.outlasted else sent == fault.requests
    assert len(poked.places) == fault.pokes
    assert len(calls) == row["turns"]
    given_up = fault.code is not None and fault.code != "refused"
    assert len(announced) == sent - len(calls) - given_up  # what a void attempt had streamed is announced as void
    for received in api.requests:
        assert_acceptable(received)


@pytest.mark.parametrize("fault", [UNREACHABLE, TLS], ids=lambda fault: fault.name.replace(" ", "-"))
async def test_an_endpoint_that_cannot_be_spoken_to_is_a_connection_error(fault: Fault, tmp_path: Path) -> None:
    async with messages_api(DONE) as api:
        url = api.url.replace("http:", "https:") if fault is TLS else "http://127.0.0.1:1"
        async with service(tmp_path, url, Poked()) as bench:
            async with contained(fault, "http", within=1.0):
                await bench.run("Worker")
            (row,) = ends(bench)
            announced = bench.sql("select seq from events where type = 'model.attempt'")
    assert (row["status"], row["code"], row["hint"]) == (
        "failed",
        "connection",
        "check the network and the address of the endpoint",
    )
    assert len(announced) >= 2


async def test_a_fallback_answers_in_the_middle_of_a_tool_exchange_and_thoughts_stay_with_who_had_them(
    tmp_path: Path,
) -> None:
    """Sonnet calls a tool, haiku takes over, sonnet is back: each gets its own thoughts and nobody else's."""
    secret = {"type": "redacted_thinking", "data": "b3BhcXVl"}
    first = reply(thinking("sonnet's"), secret, tool_use("poke", {"where": 1}, "toolu_1"))
    second = reply(thinking("haiku's"), tool_use("poke", {"where": 2}, "toolu_2"))
    script = [first, refuse(529), second, DONE]
    poked = Poked()
    async with messages_api(*script) as api, service(tmp_path, api.url, poked, model="fallback: [second]") as bench:
        async with contained(INSTEAD, "http", within=1.0):
            await bench.run("Worker")
        calls = bench.sql("select model, cost_usd, pricing from model_calls order by turn")
    assert [call["model"] for call in calls] == ["claude-sonnet-5-5", "claude-haiku-5-5", "claude-sonnet-5-5"]
    dear, cheap, _ = (call["cost_usd"] for call in calls)
    assert (round(dear * 1e6), round(cheap * 1e6)) == (11 * 2 + 42 * 10, 11 + 42)
    assert poked.places == [1, 2]
    to_haiku, back = (api.requests[number].body["messages"] for number in (2, 3))
    assert [block["type"] for block in to_haiku[1]["content"]] == ["tool_use"]
    assert back[1]["content"][:2] == [thinking("sonnet's"), secret]
    assert [block["type"] for block in back[3]["content"]] == ["tool_use"]


async def test_a_dead_provider_is_not_asked_again_by_every_agent(tmp_path: Path) -> None:
    agents = 20
    orders = [tool_use("dispatch_agent", {"name": "Worker", "task": "work"}, f"toolu_{number}") for number in range(agents)]
    everybody_asks = anyio.Event()
    dead = replace(refuse(500), gate=everybody_asks, gate_after=-1)
    asked: list[str] = []

    def answer(received: Received) -> Answer:
        messages = received.body["messages"]
        asked.append(messages[0]["content"][0]["text"])
        if len(asked) == agents + 2:
            everybody_asks.set()
        if asked[-1] == "lead" and not everybody_asks.is_set():
            return reply(*orders) if len(messages) == 1 else reply(text("waiting for them"))
        return dead

    breaking = BreakerSettings(failures=8, lasting=0.0)
    async with messages_api(answer) as api, service(tmp_path, api.url, Poked(), breaking=breaking) as bench:
        async with contained(DEAD, "http", within=1.0):
            await bench.run("Lead", "lead")
        (above,), below = ends(bench, "Lead"), ends(bench)
    assert (above["status"], len(below)) == ("failed", agents)
    assert {row["status"] for row in below} <= {"failed", "cancelled"}  # the rest ends with the agent that sent them
    assert {row["code"] for row in (above, *below)} <= {"server", "circuit_open", None}
    assert "it cannot be asked again for 5 s" in above["error"]
    assert len(api.requests) <= 2 + agents + 8  # who was asking already was answered; nobody asked again
