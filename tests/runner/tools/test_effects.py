"""Effects: what may be repeated is repeated once, anything else never, and an outcome nobody knows is shown as that."""

import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from runner.service.order import Order
from runner.tools.effects import CHECK_FIRST, UNKNOWN, cut_short, may_repeat, status_of, without_answer
from runner.tools.upstream import process, server
from server.cli.show import execution_view
from server.cli.show.transcript_text import TranscriptText
from tests.support.local_tools import LocalTools
from tests.support.models import call, hang, malformed_call, say
from tests.support.reading import dispatch, dispatched, results, shown, text_of
from tests.support.requirement import requirement
from tests.support.servers import raw_server
from tests.support.service import Bench, bench


def ends(service: Bench) -> dict[str, tuple[str, str | None]]:
    """How the calls of each tool ended."""
    rows = service.sql("select tool, status, error_type from tool_calls")
    return {row["tool"]: (row["status"], row["error_type"]) for row in rows}


@pytest.mark.parametrize(
    ("effect", "repeats"), [("read_only", True), ("idempotent", True), ("at_most_once", False), ("ask", False), ("", False)]
)
def test_only_a_call_that_is_idempotent_may_be_repeated(effect: str, repeats: bool) -> None:
    lost = without_answer("unavailable", "cut off", effect, "call it again")

    assert may_repeat(effect) is repeats
    assert status_of(lost) == status_of(cut_short(effect)) == ("failed" if repeats else "unknown")
    assert (UNKNOWN in lost.text, CHECK_FIRST in lost.text) == (not repeats, not repeats)


async def test_a_call_that_was_cut_off_is_made_once_more_if_its_effect_allows_and_is_unknown_if_not(tmp_path: Path) -> None:
    effects = ("read_only", "idempotent", "at_most_once", "ask")
    servers = {
        effect: raw_server("counts", env={"COUNT": str(tmp_path / effect)}, effects={"poke": effect}) for effect in effects
    }
    config = f"""
    mcp_servers: {{{", ".join(f"{name}: {server}" for name, server in servers.items())}}}
    agents: {{Solo: {{mcp_servers: [{", ".join(effects)}]}}}}
    """
    everything = call("read_only__poke") + call("idempotent__poke") + call("at_most_once__poke") + call("ask__poke")
    async with bench(tmp_path, config, {"Solo": [everything, say("done")]}) as service:
        ended = await service.run("Solo")

        counts = {effect: len((tmp_path / effect).read_text().splitlines()) for effect in effects}
        assert counts == {"read_only": 2, "idempotent": 2, "at_most_once": 1, "ask": 1}
        unknown = ("unknown", "unavailable")
        assert ends(service) == {
            "read_only.poke": ("completed", None),
            "idempotent.poke": ("completed", None),
            "at_most_once.poke": unknown,
            "ask.poke": unknown,
        }
        told = [text_of(block) for block in results(service.model.requests[-1])]
        assert told[:2] == ["poked 2 times"] * 2
        assert all("no more disk" in text and UNKNOWN in text and CHECK_FIRST in text for text in told[2:])
        repeated = service.sql("select payload from events where type = 'upstream.repeated'")
        assert {json.loads(row["payload"])["server"] for row in repeated} == {"read_only", "idempotent"}
        assert {row["outcome_unknown"] for row in service.sql("select * from tool_errors")} == {1}

        view = await execution_view.load_view(service.dispatcher.services.database.reads, service.database, ended.id)
        assert "! at_most_once.poke: outcome unknown (unavailable); `outrider show " in view.tree_text()
        reads = service.dispatcher.services.database.reads
        calls = await reads.tool_calls(ended.id)
        talk = TranscriptText(await reads.tree(ended.id), await reads.messages(ended.id), calls, ())
        lines = "\n".join(line.text for line in talk.lines())
        assert re.search(r"→ ask\.poke .*\n +outcome unknown \(unavailable\)", lines)


@requirement("S2-CT-9", "S2-CA-4")
async def test_a_call_that_is_stopped_is_unknown_only_if_it_was_under_way_and_may_have_changed_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "PROBE_SECONDS", 30)
    monkeypatch.setattr(process, "STOP_GRACE", 0.2)
    inside = 0

    async def forever(_: Any) -> str:
        nonlocal inside
        inside += 1
        await anyio.sleep_forever()
        return "never"

    config = f"""
    mcp_servers: {{stuck: {raw_server("hangs")}}}
    agents: {{Solo: {{mcp_servers: [stuck], limits: {{tool_timeout: 100ms}}}}}}
    """
    effects = {"look": "read_only", "put": "idempotent"}
    tools = LocalTools({"look": forever, "put": forever, "push": forever}, effects=effects)
    # While it is found out whether a server that let a call time out still lives, further calls of it wait.
    last = call("look") + call("put") + call("push") + call("stuck__well")
    async with bench(tmp_path, config, {"Solo": [call("stuck__poke"), last]}, tools.for_agents("Solo")) as service:
        started = await service.dispatcher.start(Order("Solo"))
        with anyio.fail_after(15):
            while inside < 3:
                await anyio.lowlevel.checkpoint()
            await service.dispatcher.cancel(started.id, "somebody", "enough")
            await service.dispatcher.wait(started.id)

        assert ends(service) == {
            "stuck.poke": ("unknown", "timeout"),
            "local.look": ("failed", "cancelled"),
            "local.put": ("failed", "cancelled"),
            "local.push": ("unknown", "cancelled"),
            "stuck.well": ("failed", "cancelled"),
        }
        (never,) = service.sql("select result from tool_calls where tool = 'stuck.well'")
        assert "stopped before it began" in never["result"]


async def test_a_model_that_concludes_in_the_middle_of_a_call_is_told_that_its_outcome_is_unknown(tmp_path: Path) -> None:
    async def forever(_: Any) -> str:
        await anyio.sleep_forever()
        return "never"

    config = "agents: {Solo: {timeout: 900ms, limits: {wrap_up_reserve: 600ms}}}"
    tools = LocalTools({"push": forever})
    async with bench(tmp_path, config, {"Solo": [call("push"), say("so far")]}, tools.for_agents("Solo")) as service:
        ended = await service.run("Solo")

        assert ended.result is not None
        assert (ended.result.text, ended.result.reason) == ("so far", "time_budget")
        assert UNKNOWN in shown(service.model.requests[-1])
        assert ends(service) == {"local.push": ("unknown", "cancelled")}


async def test_what_was_certainly_not_carried_out_has_failed(tmp_path: Path) -> None:
    config = f"""
    mcp_servers: {{dies: {raw_server("dies")}, shy: {raw_server("pid", tools={"deny": ["poke"]})}}}
    agents: {{Solo: {{mcp_servers: [dies, shy], max_iterations: 9}}}}
    """
    poke = call("dies__poke")
    refused = call("nobody") + malformed_call("dies__well", "[1") + call("shy__poke") + call("finish", status="great")
    cut = say("and then", stop_reason="max_tokens") + call("dies__well")
    async with bench(tmp_path, config, {"Solo": [refused, poke, poke, poke, cut, say("done")]}) as service:
        await service.run("Solo")

        rows = service.sql("select tool, status, error_type from tool_calls order by started_at, position")
        assert [tuple(row.values()) for row in rows] == [
            ("nobody", "failed", "unknown_tool"),
            ("dies.well", "failed", "invalid_arguments"),
            ("shy__poke", "failed", "unknown_tool"),
            ("finish", "failed", "invalid_arguments"),
            ("dies.poke", "unknown", "unavailable"),
            ("dies.poke", "unknown", "unavailable"),
            ("dies.poke", "failed", "unavailable"),  # it keeps dying, so it is not even started
            ("dies.well", "failed", "cut_off"),
        ]


async def test_nothing_is_unknown_about_the_tools_of_outrider_itself(tmp_path: Path) -> None:
    config = "agents: {Lead: {sub_agents: [Worker]}, Worker: {description: works}}"
    scripts = {
        "Lead": [
            dispatch("Worker"),
            lambda request: (
                call("get_result", execution_id=dispatched(request)[0], wait_seconds=50)
                + call("wait_for", execution_ids=dispatched(request), wait_seconds=50)
            ),
        ],
        "Worker": [hang()],
    }
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await service.model.started("Worker")
            await service.model.started("Lead", 2)
            while len(ends(service)) < 3:
                await anyio.lowlevel.checkpoint()
            await service.dispatcher.cancel(started.id, "somebody", "enough")
            await service.dispatcher.wait(started.id)

        assert ends(service) == {
            "dispatch_agent": ("completed", None),
            "get_result": ("failed", "cancelled"),
            "wait_for": ("failed", "cancelled"),
        }
        assert service.sql("select * from tool_errors") == []
