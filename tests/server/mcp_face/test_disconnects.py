"""Clients over HTTP that die: what they dispatched goes on, nothing is lost, and trying again starts nothing twice."""

import os
import random
import secrets
import sys
from collections import Counter
from pathlib import Path

import anyio
import pytest
from anyio.streams.text import TextReceiveStream

from tests.support.gates import at_gate
from tests.support.requirement import requirement
from tests.support.shell import make_shell
from tests.support.wire import ERAS, LEGACY, over_http, request, served_over_http

CLIENT = Path(__file__).with_name("mortal.py")
CLIENTS, EACH, LIVES = 20, 10, 3
SEED = int(os.environ.get("OUTRIDER_SEED", "0")) or secrets.randbelow(10**9)


async def live(url: str, name: str, era: str, last_words: str | None) -> list[str]:
    """What a client says until it has done everything, or until it is killed at its last words."""
    command = [sys.executable, "-I", "-S", str(CLIENT), url, era, name, str(EACH)]
    process = await anyio.open_process(command, stderr=None)
    said: list[str] = []
    async with process:
        assert process.stdout is not None
        rest = ""
        async for text in TextReceiveStream(process.stdout):
            *lines, rest = (rest + text).split("\n")
            said += lines
            if last_words is not None and any(line.startswith(last_words) for line in lines):
                process.kill()
                return said
    assert process.returncode == 0
    return said


@requirement("S2-MC-3")
async def test_of_many_dying_clients_nothing_is_lost_and_nothing_done_twice(tmp_path: Path) -> None:
    chance, said = random.Random(SEED), dict[str, list[str]]()
    places = [
        (chance.randrange(EACH), chance.choice(["sending", "sent", "got", "waiting"])) for _ in range(CLIENTS * LIVES)
    ]

    async def lives(url: str, name: str, era: str, ends: list[tuple[int, str]]) -> None:
        for number, word in ends:
            await live(url, name, era, f"{word} {name}-{number}")
        said[name] = await live(url, name, era, None)

    shell = make_shell(tmp_path)
    with anyio.fail_after(50):
        async with served_over_http(shell) as (_, url), anyio.create_task_group() as group:
            for client in range(CLIENTS):
                ends = [places.pop() for _ in range(chance.randrange(LIVES + 1))]
                group.start_soon(lives, url, f"c{client}", ERAS[client % 2], ends, name=f"client {client}")
    rows = shell.rows("select id, idempotency_key, task, status from executions")
    told = {key: where for lines in said.values() for word, key, *where in map(str.split, lines) if word == "got"}
    ended = Counter(line.split()[2] for lines in said.values() for line in lines if line.startswith("ended"))

    assert len(rows) == CLIENTS * EACH, f"seed {SEED}"
    assert {row["idempotency_key"]: [row["id"]] for row in rows} == told, f"seed {SEED}"
    assert ended == {"completed": CLIENTS * EACH}
    assert {row["status"] for row in rows} == {"completed"}


@pytest.mark.parametrize("era", ERAS)
async def test_what_a_killed_client_waited_for_is_there_for_the_next(tmp_path: Path, era: str) -> None:
    shell = make_shell(tmp_path)
    gate = shell.gate("gate")
    async with served_over_http(shell, GATE=str(gate)) as (_, url), over_http(url, LEGACY) as next_client:
        async with over_http(url, era) as client:
            started = await client.call("dispatch_agent", {"name": "Lead", "task": "go"})
            execution = started["result"]["structuredContent"]["execution_id"]
            async with at_gate(gate):
                waiting = {"name": "get_result", "arguments": {"execution_id": execution, "wait_seconds": 50}}
                with anyio.move_on_after(0.3) as given_up:  # and with it the connection
                    await client.post(request(5, "tools/call", waiting, era))
                assert given_up.cancelled_caught
                running = await next_client.call("get_result", {"execution_id": execution, "wait_seconds": 0})
        ended = await next_client.call("get_result", {"execution_id": execution, "wait_seconds": 20})

    assert running["result"]["structuredContent"]["status"] == "running"
    assert ended["result"]["structuredContent"]["status"] == "completed"
