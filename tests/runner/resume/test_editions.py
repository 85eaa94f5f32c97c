"""With which configuration an execution goes on: the one it began with, and what was rehearsed stays rehearsed."""

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from runner.errors import Refusal
from runner.service.order import Order
from server.app import Blueprint, open_service
from tests.runner.resume.resuming import CONFIG, after_a_stop
from tests.support.gated import NO, asked, decide
from tests.support.local_tools import LocalTools
from tests.support.models import call, hang, say
from tests.support.reading import results, text_of
from tests.support.servers import sdk_server
from tests.support.service import bench, settings_of


async def _acts(_: object) -> str:
    return "did"


async def test_a_resumed_execution_keeps_its_configuration_but_not_what_is_denied_today(
    tmp_path: Path,
) -> None:
    then = CONFIG.replace("description: looks", "description: looks, custom_instructions: the old way")
    tools = LocalTools({"act": _acts, "look": _acts})
    async with bench(tmp_path, then, {"Leaf": lambda _: hang()}, tools.for_agents("Leaf")) as service:
        started = await service.dispatcher.start(Order("Leaf", "look"))
        with anyio.fail_after(10):
            await service.model.started("Leaf")

    today = CONFIG.replace(
        "description: looks", "description: looks, custom_instructions: the new way, tools: {deny: [act]}"
    )
    async with after_a_stop(tmp_path, {"Leaf": [say("done")]}, tools, today) as service:
        await service.ended(started.id)

        assert "the old way" in service.model.requests[0].system
        assert [tool.name for tool in service.model.requests[0].tools if tool.server == "local"] == ["look"]


async def test_a_resumed_execution_asks_where_todays_configuration_says_so(tmp_path: Path) -> None:
    def config(**more: Any) -> str:
        return f"mcp_servers: {{a: {sdk_server(**more)}}}\nagents: {{Worker: {{mcp_servers: [a]}}}}"

    async with bench(tmp_path, config(gates={"echo": "none"}), {"Worker": [hang()]}) as opened:
        root = await opened.dispatcher.start(Order("Worker", "say it"))
        with anyio.fail_after(10):
            await opened.model.started("Worker")

    scripts = {"Worker": [call("a__echo", value=1), say("understood")]}
    async with bench(tmp_path, config(gates={"e*": "ask"}), scripts) as opened:
        await opened.dispatcher.adopt()
        [question] = await asked(opened)
        assert await decide(opened, question, NO)
        await opened.ended(root.id)

    assert "not on a Friday" in text_of(results(opened.model.of("Worker")[1])[0])


async def test_what_was_rehearsed_goes_on_and_is_continued_rehearsed_where_there_is_a_key(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("agents: {Quick: [{when: any, say: at once}]}", encoding="utf-8")
    models = "models: {one: {model: none, base_url: 'http://127.0.0.1:9', rehearsal: script.yaml}}"
    settings = settings_of(tmp_path, f"{models}\nagents: {{Quick: {{description: answers}}}}")
    database, key = tmp_path / "outrider.db", {"ANTHROPIC_API_KEY": "canary"}
    async with open_service(Blueprint(settings.rehearsed(), database, pace=60, environ=key)) as dispatcher:
        started = await dispatcher.start(Order("Quick", "say something"))
        with anyio.fail_after(10):
            while (at_work := dispatcher.tree.get(started.id)) is None or not at_work.state.asking:
                await anyio.lowlevel.checkpoint()

    async with open_service(Blueprint(settings, database, environ=key)) as dispatcher:
        assert await dispatcher.adopt() == 1
        with anyio.fail_after(10):
            first = await dispatcher.wait(started.id)
            priced = await dispatcher.services.database.reads.pricing(started.id)
            continued = await dispatcher.resume(started.id, "and now?")
            second = await dispatcher.wait(continued.id)

    assert priced == {started.id: {"rehearsed"}}, "a call that was lost cost nothing either"
    for end in (first, second):
        assert end.result is not None
        assert (end.status, end.result.metadata.get("rehearsed")) == ("completed", True)

    (tmp_path / "script.yaml").unlink()
    async with open_service(Blueprint(settings, database, environ=key)) as dispatcher:
        with pytest.raises(Refusal, match="it was only rehearsed, and its configuration cannot be restored"):
            await dispatcher.resume(started.id, "and now?")
