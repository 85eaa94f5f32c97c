"""The scenario every client must be able to play: three agents, one awaited, one steered, one cancelled, all collected.

Owns: its steps and what must come of them. Must not know: whose client it is, or the transport.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

from tests.clients.stage import Play

TERMINAL = {"Quick": "completed", "Lead": "completed", "Endless": "cancelled"}


class Connected(Protocol):
    """A client with a connection."""

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a tool that succeeds."""
        ...

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The text of a tool's error."""
        ...

    async def read(self, uri: str) -> str:
        """The text of a resource."""
        ...


async def perform(client: Connected, play: Play) -> dict[str, str]:
    """Play it from the first dispatch to the tree; how each agent ended."""
    listed = await client.call("list_agents")
    assert {agent["name"] for agent in listed["agents"]} >= set(TERMINAL)

    ids: dict[str, str] = {}
    for agent in TERMINAL:
        started = await client.call("dispatch_agent", name=agent, task=f"{agent}: look, {play.name}")
        assert started["status"] == "running"
        ids[agent] = started["execution_id"]

    first = await client.call("wait_for", execution_ids=list(ids.values()), mode="any", wait_seconds=20)
    statuses = {each["agent"]: each["status"] for each in first["executions"]}
    assert (statuses["Quick"], statuses["Endless"]) == ("completed", "running")

    await play.at_the_gate.wait()
    sent = await client.call("send_message", execution_id=ids["Lead"], text="only the large ones, please")
    assert sent["message"] == "accepted"
    play.gate.set()

    stopped = await client.call("cancel_agent", execution_id=ids["Endless"], reason="it never ends")
    assert stopped["cancel"] in ("requested", "done")

    everything = await client.call("wait_for", execution_ids=list(ids.values()), mode="all", wait_seconds=20)
    assert {each["agent"]: each["status"] for each in everything["executions"]} == TERMINAL
    collected = {agent: await client.call("get_result", execution_id=id_) for agent, id_ in ids.items()}
    assert collected["Quick"]["result"]["output"] == "42 files"
    assert collected["Lead"]["result"]["output"] == "7 large files, as you asked"
    assert collected["Endless"]["status"] == "cancelled"

    shown = await client.call("get_execution_tree", execution_id=ids["Lead"])
    assert [child["agent"] for child in shown["tree"]["children"]] == ["Quick"]
    assert json.loads(await client.read(f"execution://{ids['Lead']}/tree")) == shown
    return {agent: result["status"] for agent, result in collected.items()}
