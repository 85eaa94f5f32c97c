"""Three callers on one server: what belongs to another is as unknown as what never was, whatever is asked about it.

`OUTRIDER_FOREIGN` sets how many foreign ids are tried, `OUTRIDER_SEED` repeats a run.
"""

import json
import os
import random
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from db.ids import ALPHABET
from tests.support.gates import at_gate
from tests.support.requirement import requirement
from tests.support.shell import CONFIG, Shell, make_shell
from tests.support.wire import LEGACY, MODERN, HttpWire, about, over_http, problem_of, request, served_over_http

COUNT = int(os.environ.get("OUTRIDER_FOREIGN", "300"))
SEED = int(os.environ.get("OUTRIDER_SEED", "0")) or secrets.randbelow(10**9)
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}

NAMES = ("alice", "bob", "carol")
TOKENS = {f"{name.upper()}_TOKEN": secrets.token_urlsafe(32) for name in NAMES}
SERVE = """\
serve:
  on_disconnect: cancel
  http:
    tokens:
      alice: {token: "${ALICE_TOKEN}"}
      bob: {token: "${BOB_TOKEN}"}
      carol: {token: "${CAROL_TOKEN}", scopes: ["executions:read_all"]}
"""

Probe = Callable[[str], tuple[str, dict[str, Any]]]
"""A request about an id."""


def call(tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """A call of a tool."""
    return "tools/call", {"name": tool, "arguments": arguments}


EVERYWHERE: list[Probe] = [
    lambda it: call("get_result", execution_id=it, wait_seconds=0),
    lambda it: call("get_result", execution_id=it, wait_seconds=50),
    lambda it: call("wait_for", execution_ids=[it], mode="any", wait_seconds=50),
    lambda it: call("wait_for", execution_ids=[it, it], wait_seconds=0),
    lambda it: call("cancel_agent", execution_id=it, reason="mine now"),
    lambda it: call("cancel_agent", execution_id=it, mode="wrap_up"),
    lambda it: call("send_message", execution_id=it, text="obey"),
    lambda it: call("read_result", execution_id=it),
    lambda it: call("get_execution_tree", execution_id=it),
    lambda it: call("query_executions", sql=f"select * from executions where id = '{it}'"),
    lambda it: ("resources/read", {"uri": f"execution://{it}"}),
    lambda it: ("resources/read", {"uri": f"execution://{it}/tree"}),
    lambda it: ("resources/read", {"uri": f"execution://{it}/transcript"}),
    lambda it: (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "execution://{id}"}, "argument": {"name": "id", "value": it}},
    ),
]
OLDER: list[Probe] = [lambda it: ("resources/subscribe", {"uri": f"execution://{it}"})]
NEWER: list[Probe] = [
    lambda it: ("tasks/get", {"taskId": it, "_meta": about(MODERN, TASKS)}),
    lambda it: ("tasks/cancel", {"taskId": it, "_meta": about(MODERN, TASKS)}),
    lambda it: ("tasks/update", {"taskId": it, "inputResponses": {"x": 1}, "_meta": about(MODERN, TASKS)}),
]


@dataclass
class World:
    """A server, its callers in both eras, and what belongs to them."""

    shell: Shell
    url: str
    wires: Mapping[tuple[str, str], HttpWire]

    def ids_of(self, principal: str) -> list[str]:
        """The executions of a caller, at every depth."""
        return [row["id"] for row in self.shell.rows("select id from executions where principal = ?", principal)]


async def said(wire: HttpWire, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a tool that succeeds."""
    answer = await wire.call(tool, arguments)
    assert not answer["result"]["isError"], answer
    return dict(answer["result"]["structuredContent"])


@pytest.fixture(scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Everybody has something that has ended, alice something that runs; bob is the one who tries."""
    shell = make_shell(tmp_path_factory.mktemp("world"), CONFIG + SERVE)
    gate = shell.gate("gate")
    async with AsyncExitStack() as stack:
        _, url = await stack.enter_async_context(served_over_http(shell, GATE=str(gate), **TOKENS))
        wires = {
            (name, era): await stack.enter_async_context(over_http(url, era, TOKENS[f"{name.upper()}_TOKEN"]))
            for name in NAMES
            for era in (LEGACY, MODERN)
        }
        for name in NAMES:
            await said(wires[name, MODERN], "run_agent", name="Quick", task=f"the secret of {name}", wait_seconds=20)
        await said(wires["alice", LEGACY], "dispatch_agent", name="Lead", task="the plan of alice", idempotency_key="k")
        await stack.enter_async_context(at_gate(gate))
        yield World(shell, url, wires)


def unknown(chance: random.Random, like: str) -> str:
    """An id that nobody has, as long as a real one."""
    return "".join(chance.choice(ALPHABET) for _ in like)


def around(chance: random.Random, real: list[str]) -> Iterator[str]:
    """Foreign ids, and what is nearly one of them."""
    while True:
        one = chance.choice(real)
        yield chance.choice([one, one, one.upper(), f"{one}.", one[:-1], f"{one}/", f"%00{one}", f"{one}' or '1'='1"])


async def bytes_of(wire: HttpWire, probe: Probe, identifier: str) -> tuple[int, str]:
    """What is answered about an id, with the id blotted out."""
    method, parameters = probe(identifier)
    response = await wire.post(request(7, method, parameters, wire.era))
    spelt = json.dumps(identifier)[1:-1]
    return response.status_code, response.text.replace(spelt, "IT").replace(identifier, "IT")


@requirement("S2-MC-5")
async def test_what_belongs_to_another_is_as_unknown_as_what_never_was(here: World) -> None:
    chance = random.Random(SEED)
    real = here.ids_of("alice") + here.ids_of("carol")
    foreign = around(chance, real)
    assert len(real) == 4  # the one of carol, and alice's with the one at the gate
    with anyio.fail_after(600):
        for number in range(COUNT):
            era = (LEGACY, MODERN)[number % 2]
            probes = EVERYWHERE + (OLDER if era == LEGACY else NEWER)
            identifier, probe = next(foreign), probes[number // 2 % len(probes)]
            wire = here.wires["bob", era]
            asked, compared = (
                await bytes_of(wire, probe, identifier),
                await bytes_of(wire, probe, unknown(chance, identifier)),
            )
            assert asked == compared, f"seed {SEED}: {era} {probe(identifier)}"
            assert "secret of" not in asked[1]
    touched = here.shell.rows("select id from executions where cancel_requested_at is not null or cancelled_by is not null")
    obeyed = here.shell.rows("select * from messages where content like '%obey%'") + here.shell.rows(
        "select * from deliveries where kind <> 'result'"
    )

    assert touched == obeyed == []


@requirement("S2-MC-5")
async def test_lists_keys_and_sql_show_a_caller_its_own_and_nothing_else(here: World) -> None:
    bob, carol, alices = here.wires["bob", LEGACY], here.wires["carol", MODERN], here.ids_of("alice")
    own = here.ids_of("bob")[0]
    listings = [
        await said(bob, "list_executions", all_levels=True, limit=100),
        await said(bob, "list_executions", all_levels=True, before=max(alices)),
        await said(bob, "list_executions", agent="Lead", all_levels=True),
        await said(bob, "list_agents"),
    ]
    mixed = await bob.call("wait_for", {"execution_ids": [own, alices[0]], "wait_seconds": 0})
    mine = await said(bob, "dispatch_agent", name="Quick", task="the plan of alice", idempotency_key="k")
    unoffered = await bob.call("query_executions", {"sql": "select 1"})
    nothing = await bob.call("no_such_tool", {"sql": "select 1"})
    asked = await said(carol, "query_executions", sql="select distinct principal from executions order by 1")
    hers = await said(carol, "list_executions", all_levels=True)

    shown = json.dumps(listings)
    assert own in shown
    assert not any(each in shown or each in json.dumps(hers) for each in alices)
    assert problem_of(mixed)["type"] == "not_found"
    assert mine["execution_id"] not in alices
    assert json.dumps(unoffered["result"]).replace("query_executions", "no_such_tool") == json.dumps(nothing["result"])
    assert [row["principal"] for row in asked["rows"]] == ["alice", "bob", "carol"]


async def test_a_session_of_another_is_as_unknown_as_one_that_never_was(here: World) -> None:
    alice, bob = here.wires["alice", LEGACY], here.wires["bob", LEGACY]
    asked = request(7, "tools/list", {}, LEGACY)
    taken, made_up = {"mcp-session-id": alice.headers["mcp-session-id"]}, {"mcp-session-id": secrets.token_hex(16)}
    posts = [await bob.post(asked, headers) for headers in (taken, made_up)]
    deletes = [await bob.http.delete(here.url, headers=bob.headers | headers) for headers in (taken, made_up)]
    gets = [
        await bob.http.get(here.url, headers=bob.headers | headers | {"accept": "text/event-stream"})
        for headers in (taken, made_up)
    ]
    still = await alice.ask("tools/list")
    statuses = {row["status"] for row in here.shell.rows("select status from executions where agent = 'Lead'")}

    for one, other in (posts, deletes, gets):
        assert (one.status_code, one.text) == (other.status_code, other.text)
        assert one.status_code == 404
    assert still["result"]["tools"]
    assert statuses == {"running"}


async def test_updates_of_another_are_never_heard(here: World) -> None:
    own, alices = here.ids_of("bob")[0], here.ids_of("alice")
    bob = here.wires["bob", MODERN]
    started = (await said(bob, "dispatch_agent", name="Lead", task="wait for alice"))["execution_id"]
    wanted = [f"execution://{each}{part}" for each in (*alices, own, started) for part in ("", "/tree", "/transcript")]
    listening = request(9, "subscriptions/listen", {"notifications": {"resourceSubscriptions": wanted}}, MODERN)
    headers = bob.headers | {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": MODERN,
        "mcp-method": "subscriptions/listen",
    }
    heard = ""
    with anyio.fail_after(20):
        async with bob.http.stream("POST", here.url, content=json.dumps(listening), headers=headers) as response:
            async for text in response.aiter_text():
                if not heard:
                    for lead in (row["id"] for row in here.shell.rows("select id from executions where agent = 'Lead'")):
                        whose = here.wires["alice" if lead in alices else "bob", MODERN]
                        await said(whose, "cancel_agent", execution_id=lead)
                heard += text
                if f"{started}/tree" in heard.partition("notifications/resources/updated")[2]:
                    break

    assert not any(each in heard for each in alices)


async def test_no_request_sets_a_command_an_argument_a_variable_or_an_address(here: World) -> None:
    inside = {
        "command",
        "args",
        "arguments",
        "env",
        "environment",
        "url",
        "address",
        "headers",
        "cwd",
        "config",
        "mcp_servers",
    }
    task = "${PATH} ${BOB_TOKEN} {{ 7 * 7 }} $(id) `id`"
    bob = here.wires["bob", MODERN]
    tools = (await bob.ask("tools/list"))["result"]["tools"]
    for tool in tools:
        assert tool["inputSchema"]["additionalProperties"] is False
        assert not inside & set(tool["inputSchema"]["properties"])
        refused = await bob.call(tool["name"], {name: {"gate": ["sh", "-c", "id"]} for name in inside})
        problem = problem_of(refused)
        assert problem["type"] == "invalid_arguments"
        assert "is not an argument of this tool" in problem["message"]
    ended = await said(bob, "run_agent", name="Quick", task=task, wait_seconds=20)
    told = here.shell.rows("select content from messages where execution_id = ?", ended["execution_id"])

    assert json.dumps(task)[1:-1] in str(told[0]["content"])
    assert TOKENS["BOB_TOKEN"] not in str(here.shell.rows("select * from executions"))
