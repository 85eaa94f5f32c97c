"""What can be done over the API, and what it answers."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from tests.support.api_serving import ApiClient, ApiOptions, ServedApi, served_api
from tests.support.gated import CONFIG, DELETE, asked, deleting
from tests.support.models import call, gate, hang, say
from tests.support.requirement import requirement


@asynccontextmanager
async def playing(
    folder: Path, scripts: dict[str, Any], config: str = CONFIG
) -> AsyncIterator[tuple[ServedApi, ApiClient]]:
    """A served service, and a caller on this machine."""
    tools = deleting().for_agents("Worker")
    async with served_api(folder, config, scripts, ApiOptions(extra_tools=tools)) as api, api.client() as client:
        yield api, client


async def started(client: ApiClient, name: str = "Lead", **more: Any) -> str:
    """Start an agent; its id."""
    return str((await client.post("/api/executions", 201, name=name, task="clean up", **more))["execution_id"])


async def state(client: ApiClient, execution: str) -> tuple[str, str | None]:
    """The status and the outcome of an execution."""
    node = (await client.get(f"/api/executions/{execution}"))["node"]
    return node["status"], node["outcome"]


GATED = {
    "Lead": [call("dispatch_agent", name="Worker", task="delete it"), say("I wait"), say("all is done")],
    "Worker": [DELETE, say("it is gone")],
}


async def test_the_same_key_starts_one_execution(tmp_path: Path) -> None:
    async with playing(tmp_path, {"Idler": [say("done")]}) as (api, client):
        both = [await started(client, "idler", idempotency_key="k", budget_usd=0.5) for _ in range(2)]
        await client.ended(both[0])
        other = await client.post("/api/executions", 409, name="Idler", task="something else", idempotency_key="k")

    assert both[0] == both[1]
    assert other["type"].endswith(":key_reused")
    assert len(api.bench.sql("select id from executions")) == 1


async def test_an_execution_goes_on_in_the_trace_of_the_request_that_starts_it(tmp_path: Path) -> None:
    parent = f"00-{'a1' * 16}-{'b2' * 8}-01"
    async with served_api(tmp_path, CONFIG, {"Idler": [say("done")]}) as api:
        for sent, kept in ((parent, {"traceparent": parent}), ("00-not-a-trace", None)):
            async with api.client(traceparent=sent) as client:
                started = await client.post("/api/executions", 201, name="Idler", task="go")
            row = api.bench.sql("select trace_context from executions where id = ?", started["execution_id"])[0]
            assert (json.loads(row["trace_context"]) if row["trace_context"] else None) == kept


async def test_a_call_is_allowed_by_the_digest_of_what_the_person_saw(tmp_path: Path) -> None:
    async with playing(tmp_path, GATED) as (api, client):
        root = await started(client)
        await asked(api.bench)
        [question] = (await client.get("/api/approvals"))["approvals"]
        path = f"/api/approvals/{question['id']}"
        other = await client.post(f"{path}/approve", 409, shown="0" * 64)
        still = (await client.get("/api/approvals"))["approvals"]
        done = await client.post(f"{path}/approve", shown=question["shown"], reason="it is old")
        late = await client.post(f"{path}/deny", 409, shown=question["shown"])
        ended = await client.ended(root)

    assert (question["agent"], question["tool"]) == ("Worker", "local.delete")
    assert question["arguments"] == '{"what": "everything"}'
    assert "another call" in other["detail"]
    assert [each["id"] for each in still] == [question["id"]]
    assert done == {"status": "approved"}
    assert "was approved by a person at the dashboard" in late["detail"]
    assert ended["result"]["output"] == "all is done"
    [row] = api.bench.sql("select decision, reason from approvals")
    assert row == {"decision": "approved", "reason": "it is old"}


async def test_a_denied_call_does_not_run_and_its_agent_reads_why(tmp_path: Path) -> None:
    async with playing(tmp_path, GATED) as (api, client):
        root = await started(client)
        await asked(api.bench)
        [question] = (await client.get("/api/approvals"))["approvals"]
        assert (await client.get("/api/counts"))["approvals"] == 1
        done = await client.post(f"/api/approvals/{question['id']}/deny", shown=question["shown"], reason="not today")
        await client.ended(root)

    assert done == {"status": "denied"}
    [row] = api.bench.sql("select result from tool_calls where tool = 'local.delete'")
    assert "not today" in row["result"]


@requirement("S2-DA-7")
async def test_one_execution_of_a_tree_is_cancelled_with_a_reason_and_the_page_is_told_before_what_will_happen(
    tmp_path: Path,
) -> None:
    scripts = {
        "Lead": [call("dispatch_agent", name="Idler", task="wait"), say("I wait"), say("without it")],
        "Idler": [hang()],
    }
    async with playing(tmp_path, scripts) as (api, client):
        root = await started(client)
        await api.bench.until(lambda: api.bench.statuses().get("Idler") == ["running"])
        [child] = api.bench.sql("select id from executions where agent = 'Idler'")
        told = await client.get(f"/api/executions/{child['id'][-6:]}/consequences", action="cancel")
        whole = await client.get(f"/api/executions/{root}/consequences", action="cancel")
        done = await client.post(f"/api/executions/{child['id']}/cancel", reason="too slow")
        await client.ended(root)
        again = await client.post(f"/api/executions/{child['id']}/cancel")
        cancelled = await client.get(f"/api/executions/{child['id']}")

        assert await state(client, root) == ("completed", "completed")
    assert (told["executions"], told["running"]) == (1, 1)
    assert "Its parent goes on and reads that it was cancelled." in told["words"]
    assert "1 execution below is stopped with it." in whole["words"]
    assert (done["status"], again["status"]) == ("requested", "already_finished")
    assert (cancelled["node"]["status"], cancelled["cancel_reason"]) == ("cancelled", "too slow")
    assert cancelled["cancelled_by"] == "a person at the dashboard"


async def test_an_execution_concludes_when_it_is_asked_to_wrap_up(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts = {
        "Lead": [call("dispatch_agent", name="Idler", task="x"), say("I wait"), say("what we have")],
        "Idler": [gate(opened, say("what I have"))],
    }
    async with playing(tmp_path, scripts) as (api, client):
        root = await started(client)
        waiting = "select id from executions where waiting_for = 'children'"
        await api.bench.until(lambda: api.bench.sql(waiting))
        told = await client.get(f"/api/executions/{root}/consequences", action="wrap-up")
        done = await client.post(f"/api/executions/{root}/wrap-up")
        opened.set()
        ended = await client.ended(root)
        over = await client.post(f"/api/executions/{root}/wrap-up")

    assert told["words"] == ["Lead is asked to answer with what it has.", "1 execution below is asked to do the same."]
    assert done == {"status": "requested", "execution_id": root}
    assert over == {"status": "already_finished", "execution_id": root}
    assert ended["result"]["output"] == "what we have"


async def test_a_message_is_read_by_a_running_execution_and_continues_an_ended_one(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts = {"Lead": [gate(opened, say("first")), say("second"), say("third")]}
    async with playing(tmp_path, scripts) as (api, client):
        root = await started(client)
        await api.bench.until(lambda: api.bench.statuses() == {"Lead": ["running"]})
        read = await client.post(f"/api/executions/{root}/message", text="look there, too")
        opened.set()
        await client.ended(root)
        more = await client.post(f"/api/executions/{root}/message", text="and then?")
        await client.ended(more["execution_id"])
        resumed = await client.post(f"/api/executions/{more['execution_id']}/resume", text="once more")
        continued = await client.get(f"/api/executions/{more['execution_id']}")
        empty = await client.post(f"/api/executions/{root}/message", 422, text="")

    assert read == {"status": "accepted", "execution_id": root}
    assert more["status"] == resumed["status"] == "continued"
    assert continued["node"]["continues_execution_id"] == root
    assert "`text`" in empty["detail"]


async def test_a_chain_starts_with_an_alert_unless_the_alert_is_resolved(tmp_path: Path) -> None:
    config = CONFIG + "agent_chains: {look: {stages: [{name: only, agents: [Idler]}]}}\n"
    alert = {"status": "firing", "labels": {"alertname": "DiskFull"}}
    async with playing(tmp_path, {"Idler": [say("done")]}, config) as (_api, client):
        begun = await client.post("/api/executions", 201, name="look", input=alert)
        await client.ended(begun["execution_id"])
        over = await client.post("/api/executions", 409, name="look", input={**alert, "status": "resolved"})
        nothing = await client.post("/api/executions", 422, name="look")
        nobody = await client.post("/api/executions", 404, name="lok", task="x")

    assert "resolved" in over["detail"]
    assert "nothing to work on" in nothing["detail"]
    assert "`Lead`" in nobody["hint"]


async def test_an_ended_tree_is_run_once_more_from_one_of_its_executions(tmp_path: Path) -> None:
    scripts = {
        "Lead": [call("dispatch_agent", name="Idler", task="look"), say("I wait"), say("all is done")],
        "Idler": [say("found it")],
    }
    async with playing(tmp_path, scripts) as (api, client):
        root = await started(client)
        await client.ended(root)
        [child] = api.bench.sql("select id from executions where agent = 'Idler'")
        told = await client.get(f"/api/executions/{root}/consequences", action="rerun")
        below = await client.get(f"/api/executions/{child['id']}/consequences", action="rerun")
        offered = (await client.get(f"/api/executions/{child['id']}"))["actions"]
        again = await client.post(f"/api/executions/{root}/rerun", **{"from": child["id"][-6:], "task": "look there"})
        ended = await client.ended(again["execution_id"])
        kept = await client.get(f"/api/executions/{root}")

    assert told["words"] == [
        "A new tree is started; this one stays as it is.",
        "Everything in it is done again, with the configuration it had.",
    ]
    assert below["words"][1:] == [
        "Done again, with the configuration it had: Idler, and what Lead did after it.",
        "Kept with their results, at no cost: 0 executions.",
    ]
    assert "rerun" in offered
    assert (again["status"], again["execution_id"] != root) == ("rerun", True)
    assert ended["node"]["status"] == kept["node"]["status"] == "completed"
    query = "select task from executions where agent = 'Idler' and root_execution_id = ?"
    assert {"task": "look there"} in api.bench.sql(query, again["execution_id"])
    assert api.bench.sql(query, root) == [{"task": "look"}]


async def test_what_runs_again_from_an_execution_is_told_before_and_only_where_it_can(tmp_path: Path) -> None:
    opened = anyio.Event()
    both = [call("dispatch_agent", name=name, task="look") for name in ("Idler", "Worker")]
    scripts = {
        "Lead": [both[0] + both[1], say("I wait"), say("all is done")],
        "Idler": [say("found it")],
        "Worker": [gate(opened, say("too"))],
    }
    async with playing(tmp_path, scripts) as (api, client):
        root = await started(client)
        await api.bench.until(lambda: api.bench.statuses().get("Idler") == ["completed"])
        [child] = api.bench.sql("select id from executions where agent = 'Idler'")
        path = f"/api/executions/{child['id']}"
        early, refused = (await client.get(path))["actions"], await client.get(f"{path}/consequences", action="rerun")
        opened.set()
        await client.ended(root)
        late, told = (await client.get(path))["actions"], await client.get(f"{path}/consequences", action="rerun")

    assert ("rerun" in early, "rerun" in late) == (False, True)
    assert "has not ended" in refused["words"][0]
    assert told["words"][-1] == "Kept with its result, at no cost: 1 execution."
