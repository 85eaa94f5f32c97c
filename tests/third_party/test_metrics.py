"""The metrics of a served process, scraped by a real Prometheus with its token: each value is the one that SQL has."""

import json
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import yaml
from anyio.abc import ByteStream

from tests.support.served_shell import free_port
from tests.support.shell import CONFIG, Shell, make_shell
from tests.third_party.listening import listening
from tests.third_party.place import installed

TOKEN = "a" * 40
TOKENS = f"{CONFIG}\nserve: {{http: {{tokens: {{alice: {{token: '${{ALICE_TOKEN}}'}}}}}}}}\n"
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Authorization": f"Bearer {TOKEN}",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "run_agent",
}
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


INFERENCES = "gen_ai_client_inference_duration_seconds_count"


class Relay:
    """Carries the bytes of Prometheus to the process and back, and tells how many scrapes were answered."""

    def __init__(self, port: int) -> None:
        self._port, self._answers = port, 0
        self._news = anyio.Event()

    async def carry(self, client: ByteStream) -> None:
        """One connection."""
        async with client, await anyio.connect_tcp("127.0.0.1", self._port) as server, anyio.create_task_group() as both:
            both.start_soon(self._copy, client, server)
            await self._copy(server, client, counts=True)
            both.cancel_scope.cancel()

    async def _copy(self, source: ByteStream, target: ByteStream, *, counts: bool = False) -> None:
        try:
            async for data in source:
                await target.send(data)
                if counts and b"HTTP/1.1 200" in data:
                    self._answers += 1
                    self._news.set()
                    self._news = anyio.Event()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # either of the two may end first

    async def scraped(self) -> None:
        """Wait until what there is now is stored: of two further scrapes the first is, when the second begins."""
        wanted = self._answers + 3
        while self._answers < wanted:
            await self._news.wait()


@asynccontextmanager
async def scraping(folder: Path, target: int) -> AsyncIterator[tuple[str, Relay]]:
    """A real Prometheus that scrapes a port, as docs/howto/observe.md says."""
    relay = Relay(target)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, relay.carry)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        job = yaml.safe_load(re.findall(r"```yaml\n(scrape_configs:.*?)```", PAGE.read_text(), re.S)[0])["scrape_configs"]
        job[0]["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
        job[0]["authorization"] = {"credentials": TOKEN}
        config = folder / "prometheus.yml"
        pace = {"scrape_interval": "1s", "scrape_timeout": "1s"}
        config.write_text(json.dumps({"global": pace, "scrape_configs": job}), encoding="utf-8")
        address = f"127.0.0.1:{free_port()}"
        options = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address={address}"]
        async with listening([*installed("bin/prometheus"), *options], {}, b"is ready"):
            yield f"http://{address}", relay
        tasks.cancel_scope.cancel()


PAGE = Path(__file__).parents[2] / "docs" / "howto" / "observe.md"


async def run(url: str, agent: str) -> dict[str, Any]:
    """Run an agent over MCP to its end."""
    arguments = {"name": agent, "task": "go", "wait_seconds": 20}
    params = {"name": "run_agent", "arguments": arguments, "_meta": META}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with httpx2.AsyncClient(timeout=30) as client:
        answer = (await client.post(url, json=body, headers=HEADERS)).text
    data = answer.split("data: ", 1)[1].splitlines()[0] if answer.startswith("event") else answer
    found: dict[str, Any] = json.loads(data)["result"]["structuredContent"]
    return found


async def asked(prometheus: str, query: str) -> dict[tuple[str, ...], float]:
    """The series of a query: the values of their labels in the order of their names, without Prometheus's own."""
    async with httpx2.AsyncClient() as client:
        answer = (await client.get(f"{prometheus}/api/v1/query", params={"query": query})).json()
    found = {}
    for series in answer["data"]["result"]:
        labels = {name: text for name, text in series["metric"].items() if name not in ("__name__", "instance", "job")}
        found[tuple(text for _, text in sorted(labels.items()))] = float(series["value"][1])
    return found


def counted(shell: Shell, query: str) -> dict[tuple[str, ...], float]:
    """The rows of a query: all columns but the last are the key."""
    return {tuple(row.values())[:-1]: tuple(row.values())[-1] for row in shell.rows(query)}


async def test_a_real_prometheus_reads_what_sql_says(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, TOKENS, {"ALICE_TOKEN": TOKEN})
    with shell.start("serve", "--http", "127.0.0.1:0") as process:
        assert process.stderr is not None
        url = process.stderr.readline().partition("serving MCP at ")[2].partition(";")[0]
        place = url.removesuffix("/mcp")
        assert httpx2.get(f"{place}/metrics").status_code == 401
        async with scraping(tmp_path, int(place.rpartition(":")[2])) as (prometheus, relay):
            assert (await run(url, "Quick"))["status"] == "completed"
            assert (await run(url, "Broken"))["status"] == "failed"
            assert (await run(url, "Lonely"))["status"] == "completed"
            with anyio.fail_after(20):
                await relay.scraped()

            by_end = "select agent, coalesce(outcome, ''), status, count(*) as n from executions group by 1, 2, 3"
            assert await asked(prometheus, "last_over_time(outrider_executions_total[1m])") == counted(shell, by_end)
            for kind, column in (("input", "input_tokens"), ("output", "output_tokens")):
                (total,) = shell.rows(f"select sum({column}) as n from model_calls")
                query = f"sum(last_over_time(gen_ai_client_inference_usage_{kind}_tokens_total[1m]))"
                assert (await asked(prometheus, query))[()] == total["n"]
            replies = shell.rows("select count(*) as n from model_calls")[0]["n"]
            calls = await asked(prometheus, f'sum(last_over_time({INFERENCES}{{error_type=""}}[1m]))')
            assert calls[()] == replies
            cost = shell.rows("select sum(cost_usd) as n from model_calls")[0]["n"]
            assert (await asked(prometheus, "sum(last_over_time(outrider_cost_usd_total[1m]))"))[()] == cost
            assert (await asked(prometheus, "sum(last_over_time(outrider_execution_seconds_count[1m]))"))[()] == 3
            assert (await asked(prometheus, "sum(last_over_time(outrider_executions_running[1m]))")) == {(): 0}
            assert (await asked(prometheus, "last_over_time(outrider_queue_depth[1m])"))[()] == 0
            assert (await asked(prometheus, "last_over_time(outrider_upstream_up[1m])")) == {("absent",): 0}
            assert await asked(prometheus, "last_over_time(outrider_build_info[1m])")
            served = await asked(prometheus, "sum(last_over_time(mcp_server_operation_duration_seconds_count[1m]))")
            assert served[()] == 3

        text = httpx2.get(f"{place}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).text
        ids = [row["id"] for row in shell.rows("select id from executions")]
        assert not [each for each in (*ids, "alice", "task=", '"go"') if each in text]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
