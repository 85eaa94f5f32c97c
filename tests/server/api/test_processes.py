"""Streams and actions across processes: trees that others run, and a server that dies."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2

from tests.support.api_serving import TIME, ApiClient
from tests.support.gates import at_gate
from tests.support.requirement import requirement
from tests.support.served_shell import free_port, serving
from tests.support.shell import Shell, make_shell

WITHIN = 3 * TIME


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[ApiClient]:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=WITHIN) as http:
        yield ApiClient(http)


def stored(shell: Shell, root: str) -> list[int]:
    """The numbers of all events of a tree."""
    rows = shell.rows("select seq from events where root_execution_id = ? order by seq", root)
    return [row["seq"] for row in rows]


async def test_a_tree_of_another_process_is_followed_and_cancelled(tmp_path: Path) -> None:
    shell, port = make_shell(tmp_path), free_port()
    gate = shell.gate("gate")
    with serving(shell, port), shell.start("run", "Lead", "go", GATE=str(gate)) as other:
        async with client_of(port) as client:
            with anyio.fail_after(WITHIN):
                async with at_gate(gate):
                    [line] = (await client.get("/api/executions"))["executions"]
                    root, heard = line["id"], list[int]()
                    told, done = dict[str, Any](), dict[str, Any]()
                    async with client.stream(f"/api/executions/{root}/events") as messages:
                        async for message in messages:
                            heard += [message.seq] if message.id else []
                            if message.kind == "caught_up":
                                told = await client.get(f"/api/executions/{root}/consequences", action="cancel")
                                done = await client.post(f"/api/executions/{root}/cancel", reason="not needed")
            ended = await client.get(f"/api/executions/{root}")

            assert await anyio.to_thread.run_sync(other.wait, WITHIN) != 0
            assert told["running"] == 2
        assert done == {"status": "requested", "execution_id": root}
        assert (ended["node"]["status"], ended["cancel_reason"]) == ("cancelled", "not needed")
        assert heard == stored(shell, root)


@requirement("S2-DA-10")
async def test_a_listener_of_a_server_that_was_killed_and_restarted_misses_nothing(tmp_path: Path) -> None:
    shell, port = make_shell(tmp_path), free_port()
    gate, heard = shell.gate("gate"), list[int]()
    async with client_of(port) as client:
        with anyio.fail_after(2 * WITHIN):
            with serving(shell, port, GATE=str(gate)) as process:
                root = (await client.post("/api/executions", 201, name="Lead", task="go"))["execution_id"]
                try:
                    async with client.stream(f"/api/executions/{root}/events") as messages:
                        async for message in messages:
                            heard += [message.seq] if message.id else []
                            if message.kind == "caught_up":
                                process.send_signal(signal.SIGKILL)
                except httpx2.TransportError:
                    pass
                process.wait(WITHIN)
            with serving(shell, port, GATE="none"):  # it adopts the tree, and the call runs again or is asked about
                path = f"/api/executions/{root}/events"
                await client.post(f"/api/executions/{root}/cancel", reason="enough")
                heard += [message.seq for message in await client.collected(path, str(heard[-1]))]

    assert heard == stored(shell, root)
