"""Storage that fails under a running service: work waits, new work is told why, and everything goes on afterwards.

`OUTRIDER_STORAGE_ROUNDS` tries every cause so many times, and the locks last half a minute in the last round.
"""

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.faults.storage.causes import CAUSES, Cause, Victim, held, locked, small_disk
from tests.support.gates import at_gate
from tests.support.shell import Shell, make_shell
from tests.support.wire import MODERN, HttpWire, over_http, problem_of, served_over_http

ROUNDS = int(os.environ.get("OUTRIDER_STORAGE_ROUNDS", "1"))
LONG_SECONDS = 30.0
NOTICE_SECONDS = 5.0
"""How soon the health is red after a cause began, and green after it ended."""


class Service:
    """A served database, and the ids its client was given."""

    def __init__(self, client: HttpWire, victim: Victim) -> None:
        self.client, self.victim = client, victim
        self.told: list[str] = []

    async def dispatch(self, agent: str) -> dict[str, Any]:
        """Start an agent; the refusal if it is refused."""
        answer = await self.client.call("dispatch_agent", {"name": agent, "task": "go"})
        if answer["result"]["isError"]:
            return problem_of(answer)
        content: dict[str, Any] = answer["result"]["structuredContent"]
        self.told.append(content["execution_id"])
        return content

    async def status(self, execution: str) -> str:
        """How an execution stands, once it has ended or a wait is over."""
        answer = await self.client.call("get_result", {"execution_id": execution, "wait_seconds": 20})
        return str(answer["result"]["structuredContent"]["status"])

    async def until_health(self, status: int) -> httpx2.Response:
        """Ask until the health is so, which must be soon."""
        with anyio.fail_after(NOTICE_SECONDS):
            while True:
                answer = await self.client.http.get(self.client.url.replace("/mcp", "/health"))
                if answer.status_code == status:
                    return answer


@asynccontextmanager
async def serving(shell: Shell, **environ: str) -> AsyncIterator[Service]:
    """`outrider serve` in a process of its own, with a client."""
    async with served_over_http(shell, **environ) as (process, url), over_http(url, MODERN) as client:
        yield Service(client, Victim(process.pid, shell.database))


async def suffered(service: Service, gate: Path, cause: Cause, seconds: float) -> None:
    """An execution at work comes through a cause; what is started meanwhile is refused with the reason."""
    at_work = (await service.dispatch("Lead"))["execution_id"]
    waiting = at_gate(gate)
    await waiting.__aenter__()
    async with cause.bring(service.victim):
        if cause.words:
            red = await service.until_health(503)
            refused = await service.dispatch("Quick")
            assert cause.words in refused["message"], cause.name
            assert refused["type"] == "unavailable"
            assert refused["hint"] == red.json()["hint"]
            assert str(service.victim.database) not in red.text
        await waiting.__aexit__(None, None, None)
        with anyio.move_on_after(seconds):
            await anyio.sleep_forever()
    await service.until_health(200)
    assert await service.status((await service.dispatch("Quick"))["execution_id"]) == "completed", cause.name
    assert await service.status(at_work) == "completed", cause.name


@pytest.mark.timeout(60 if ROUNDS == 1 else 0)
async def test_whatever_happens_to_its_storage_nothing_acknowledged_is_lost_and_work_goes_on(tmp_path: Path) -> None:
    with small_disk(tmp_path / "data"):
        shell = make_shell(tmp_path)
        gate = shell.gate("gate")
        async with serving(shell, GATE=str(gate)) as service:
            for number in range(ROUNDS):
                for cause in CAUSES:
                    long = ROUNDS > 1 and number == ROUNDS - 1 and cause.bring in (locked, held)
                    await suffered(service, gate, cause, LONG_SECONDS if long else 0.1)
        rows = {row["id"]: row["status"] for row in shell.rows("select id, status from executions")}
        connection = sqlite3.connect(shell.database)
        integrity = connection.execute("pragma integrity_check").fetchone()[0]
        connection.close()

    assert set(service.told) <= set(rows)
    assert set(rows.values()) == {"completed"}
    assert len(rows) == len(service.told) + len(CAUSES) * ROUNDS  # each Lead has sent a Waiter, and nothing else is there
    assert integrity == "ok"
