"""What an interrupted tree needs and a process lacks: each kind is told as data, and nothing of the tree is touched."""

import importlib
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from db.store.owners import is_alive
from registry import AgentSpec, load
from runner.errors import Refusal
from runner.resume.readiness import Lack, Unready
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from server.app import Blueprint, open_service
from tests.support.messages_api import messages_api, mute, reply, text, tool_use
from tests.support.models import hang, say
from tests.support.service import bench

KEY = {"ANTHROPIC_API_KEY": "canary"}


@asynccontextmanager
async def service(
    folder: Path, config: str, environ: Mapping[str, str], registered: tuple[AgentSpec, ...] = (), **more: Any
) -> AsyncIterator[Dispatcher]:
    """A service with the models of its configuration."""
    file = folder / "config.yaml"
    file.write_text(config, encoding="utf-8")
    settings = load(file, environ, registered)
    async with open_service(Blueprint(settings, folder / "outrider.db", environ=environ, **more)) as dispatcher:
        yield dispatcher


async def refused(dispatcher: Dispatcher, execution: str) -> tuple[Lack, ...]:
    """What a service that adopts nothing says it lacks; rows stay as they are."""
    reads = dispatcher.services.database.reads
    before = await reads.tree_rows(execution), await reads.events(execution)
    assert await dispatcher.adopt() == 0
    with pytest.raises(Unready) as caught:
        await dispatcher.resume(execution)
    assert (await reads.tree_rows(execution), await reads.events(execution)) == before
    assert not is_alive(dispatcher.services.database.path, before[0][0]["owner"])
    return caught.value.lacks


async def test_what_asked_a_real_model_does_not_go_on_as_a_rehearsal(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("agents: {Asker: [{when: any, say: rehearsed}]}", encoding="utf-8")
    config = "models: {m: {model: claude-any, base_url: URL, rehearsal: script.yaml}}\nagents: {Asker: {utilities: true}}\n"
    async with messages_api(reply(tool_use("current_date", {})), mute()) as api:
        here = config.replace("URL", api.url)
        async with service(tmp_path, here, KEY) as dispatcher:
            started = await dispatcher.start(Order("Asker", "look"))
            with anyio.fail_after(20):
                await api.arrived(2)
        async with service(tmp_path, here, {}) as dispatcher:
            assert await refused(dispatcher, started.id) == (Lack("key", "ANTHROPIC_API_KEY", "set `ANTHROPIC_API_KEY`"),)


async def test_what_a_real_model_answered_is_not_continued_as_a_rehearsal(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("agents: {Asker: [{when: any, say: rehearsed}]}", encoding="utf-8")
    config = "models: {m: {model: claude-any, base_url: URL, rehearsal: script.yaml}}\nagents: {Asker: {}}\n"
    async with messages_api(reply(text("real"))) as api:
        here = config.replace("URL", api.url)
        async with service(tmp_path, here, KEY) as dispatcher:
            started = await dispatcher.start(Order("Asker", "look"))
            assert (await dispatcher.wait(started.id)).status == "completed"
        async with service(tmp_path, here, {}) as dispatcher:
            with pytest.raises(Unready, match="it needs ANTHROPIC_API_KEY"):
                await dispatcher.resume(started.id, "and now?")
            assert len(await dispatcher.services.database.reads.roots(10)) == 1


async def test_a_chain_needs_the_keys_of_its_later_stages_too(tmp_path: Path) -> None:
    config = """
models:
  cheap: {model: none, base_url: URL}
  dear: {model: claude-any, base_url: URL, api_key: '${DEAR_KEY}'}
defaults: {model: cheap}
agents: {First: {}, Second: {model: dear}, Third: {model: dear}}
agent_chains: {both: {stages: [{name: one, agents: [First]}, {name: two, agents: [{name: Second, model: cheap}]}]}}
"""
    async with messages_api(mute()) as api:
        here = config.replace("URL", api.url)
        async with service(tmp_path, here, {**KEY, "DEAR_KEY": "x"}) as dispatcher:
            started = await dispatcher.start(Order("both", "look"))
            with anyio.fail_after(20):
                await api.arrived(1)
        async with service(tmp_path, here, {"DEAR_KEY": "x"}) as dispatcher:
            assert [lack.name for lack in await refused(dispatcher, started.id)] == ["ANTHROPIC_API_KEY"]
        async with service(tmp_path, here, KEY) as dispatcher:  # `dear` is replaced at its place in the chain
            assert await dispatcher.adopt() == 1


async def test_an_agent_of_a_program_waits_for_that_program(tmp_path: Path) -> None:
    begun = anyio.Event()

    async def work(_task: str, _input: object) -> str:
        begun.set()
        await anyio.sleep_forever()
        return "never"

    spec = AgentSpec(name="Worker", strategy="function", description="works")
    config = "agents: {Other: {}}\n"
    async with service(tmp_path, config, {}, (spec,), functions={"Worker": work}) as dispatcher:
        started = await dispatcher.start(Order("Worker", "go"))
        with anyio.fail_after(10):
            await begun.wait()

    async with service(tmp_path, config, {}) as dispatcher:
        [lack] = await refused(dispatcher, started.id)
        assert (lack.kind, lack.name) == ("agent", "Worker")


async def test_a_function_and_the_only_server_must_be_there(tmp_path: Path) -> None:
    program = tmp_path / "serve-me"
    program.write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    program.chmod(0o755)
    (tmp_path / "prices_of_a_test.py").write_text(
        "import time\ndef look_up(task):\n    time.sleep(0.1)\n", encoding="utf-8"
    )
    config = f"""
mcp_servers: {{only: {{command: ['{program}']}}}}
agents: {{Asker: {{mcp_servers: [only]}}, Prices: {{function: 'prices_of_a_test:look_up'}}}}
agent_chains: {{all: {{stages: [{{name: one, agents: [Asker]}}, {{name: two, agents: [Prices]}}]}}}}
"""
    async with bench(tmp_path, config, {"Asker": lambda _: hang()}) as opened:
        started = await opened.dispatcher.start(Order("all", "look"))

    program.unlink()
    async with bench(tmp_path, config, {"Asker": [say("x")]}) as opened:
        assert [lack.kind for lack in await refused(opened.dispatcher, started.id)] == ["program"]
    (tmp_path / "prices_of_a_test.py").unlink()
    sys.modules.pop("prices_of_a_test", None)
    importlib.invalidate_caches()
    async with bench(tmp_path, "agents: {Asker: {}}\n", {}) as opened:
        lacks = await refused(opened.dispatcher, started.id)
        assert {lack.kind for lack in lacks} <= {"function", "program", "configuration"}
        assert any("prices_of_a_test" in lack.name + lack.hint for lack in lacks)


async def test_a_tree_that_was_asked_to_stop_ends_wherever_it_is_found(tmp_path: Path) -> None:
    config = "models: {m: {model: claude-any, base_url: URL}}\nagents: {Asker: {}}\n"
    async with messages_api(mute()) as api:
        here = config.replace("URL", api.url)
        async with service(tmp_path, here, KEY) as dispatcher:
            started = await dispatcher.start(Order("Asker", "look"))
            with anyio.fail_after(20):
                await api.arrived(1)
        async with service(tmp_path, here, {}) as dispatcher:
            assert await dispatcher.adopt() == 0
            assert await dispatcher.cancel(started.id, "ada", "enough") == "requested"
            assert (await dispatcher.wait(started.id)).status == "cancelled"


async def test_ten_thousand_trees_that_need_the_same_cost_one_look(tmp_path: Path) -> None:
    config = "models: {m: {model: claude-any, base_url: URL}}\nagents: {Asker: {}}\n"
    async with messages_api(mute()) as api:
        here = config.replace("URL", api.url)
        async with service(tmp_path, here, KEY) as dispatcher:
            started = [await dispatcher.start(Order("Asker", f"look {each}")) for each in range(3)]
            with anyio.fail_after(20):
                await api.arrived(3)
        async with service(tmp_path, here, {}) as dispatcher:
            counted = _count_snapshots(dispatcher)
            for _ in range(3):
                assert await dispatcher.adopt() == 0
            assert len(counted) <= 1
            rows = [row for each in started for row in await dispatcher.services.database.reads.tree_rows(each.id)]
            assert {row["attempt"] for row in rows} == {1}


def _count_snapshots(dispatcher: Dispatcher) -> list[str]:
    asked: list[str] = []
    here = dispatcher._adopter._here
    snapshot = here.snapshot

    async def counting(config_hash: str) -> str | None:
        asked.append(config_hash)
        return await snapshot(config_hash)

    here.snapshot = counting
    return asked


async def test_a_user_whose_last_message_cannot_go_on_is_told_so_at_once(tmp_path: Path) -> None:
    config = """
models: {m: {model: claude-any, base_url: URL}, dear: {model: none, base_url: URL, api_key: '${DEAR_KEY}'}}
defaults: {model: m}
agents: {Assistant: {sub_agents: [Helper]}, Helper: {description: helps, model: dear}}
chat: {agent: Assistant}
users: {ada: {}}
"""
    send = tool_use("dispatch_agent", {"name": "Helper", "task": "help"})
    async with messages_api(reply(send), mute(), mute()) as api:
        here = config.replace("URL", api.url)
        async with service(tmp_path, here, {**KEY, "DEAR_KEY": "x"}) as dispatcher:
            started, _ = await dispatcher.chat_queue.accept(Order("", "first", user="ada"))
            with anyio.fail_after(20):
                await api.arrived(3)
        async with service(tmp_path, here, KEY) as dispatcher:
            with anyio.fail_after(10), pytest.raises(Refusal) as caught:
                await dispatcher.chat_queue.accept(Order("", "second", user="ada"))

    assert (caught.value.kind, started.id in str(caught.value)) == ("unavailable", True)
    assert caught.value.hint.startswith("set `DEAR_KEY`, or cancel execution ")
