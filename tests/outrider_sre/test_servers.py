"""The three servers as a host meets them: real processes over stdio, and the whole investigation by their answers."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server import MCPServer

from outrider_sre import cluster, logs, metrics
from outrider_sre.incident import VARIABLE
from tests.outrider_sre.asking import ask, refused, started
from tests.outrider_sre.conftest import OTHER_STORY

SERVERS = {
    "outrider_sre.logs": {"query", "stats", "patterns", "labels", "label_values"},
    "outrider_sre.metrics": {"query", "query_range", "series", "metric_names", "alerts"},
    "outrider_sre.cluster": {"list_objects", "get_object", "events", "rollout_history", "rollouts"},
}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(("module", "names"), SERVERS.items())
async def test_a_server_starts_over_stdio_and_offers_described_read_only_tools(
    module: str, names: set[str], mode: str
) -> None:
    async with started(module, mode=mode) as client:
        tools = (await client.list_tools()).tools

    assert {tool.name for tool in tools} == names
    for tool in tools:
        assert tool.description
        assert tool.output_schema
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is True
        assert tool.annotations.destructive_hint is False


async def test_the_cause_can_be_found_by_following_the_answers() -> None:
    """Alert → the service it calls in vain → what is new there → what was rolled out → the numbers that confirm it."""
    async with (
        started("outrider_sre.logs") as log_client,
        started("outrider_sre.metrics") as metric_client,
        started("outrider_sre.cluster") as cluster_client,
    ):
        cause = await investigate(log_client, metric_client, cluster_client)

    assert cause == {
        "victim": "checkout",
        "culprit": "inventory",
        "pod": "inventory-6b8f9d7c4-q4tzn",
        "change": ("inventory.config.DB_POOL_SIZE", "20", "10"),
        "waiting": "inventory",
    }


async def test_the_servers_serve_the_incident_that_the_environment_names(other_incident: Path) -> None:
    async with (
        started("outrider_sre.logs", other_incident) as log_client,
        started("outrider_sre.metrics", other_incident) as metric_client,
        started("outrider_sre.cluster", other_incident) as cluster_client,
    ):
        cause = await investigate(log_client, metric_client, cluster_client)

    assert cause == {
        "victim": "catalog",
        "culprit": "pricing",
        "pod": "pricing-5d4c7b9f8-wm2xk",
        "change": ("pricing.config.DATABASE_CONNECTIONS", "24", "8"),
        "waiting": "pricing",
    }


async def investigate(log_client: Any, metric_client: Any, cluster_client: Any) -> dict[str, Any]:
    """What plain access to the fields of the answers finds, with nothing known beforehand."""
    alert = (await ask(metric_client, "alerts"))["alerts"][0]
    since = f"{alert['active_at']}-20m"
    victim = alert["labels"]["service"]
    counted = await ask(
        log_client,
        "stats",
        query=f'{{service="{victim}",level="error"}} | upstream=~".+"',
        by=["upstream"],
        start=since,
    )
    culprit = counted["groups"][0]["labels"]["upstream"]
    errors = f'{{service="{culprit}",level="error"}}'
    found = await ask(log_client, "patterns", query=errors, start=since, novel_only=True)
    rollout = (await ask(cluster_client, "rollouts", since=since))["rollouts"][0]
    change = rollout["changes"][0]
    waiting = await ask(metric_client, "query", query="max by (service) (db_pool_waiting) > 0")
    return {
        "victim": victim,
        "culprit": culprit,
        "pod": found["patterns"][0]["first_pod"],
        "change": (change["field"], change["before"], change["after"]),
        "waiting": waiting["result"][0]["metric"]["service"],
    }


async def test_without_the_decisive_lines_the_logs_tell_only_symptoms(
    other_incident: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "incident"
    shutil.copytree(other_incident, folder)
    path = folder / "logs" / f"{OTHER_STORY.namespace}.{OTHER_STORY.culprit}.jsonl.gz"
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(line for line in lines if b"pool exhausted" not in line)))
    monkeypatch.setenv(VARIABLE, str(folder))

    answer = await ask(logs.server, "query", query='{service="pricing"} |= "exhausted"')

    assert answer["total"] == 0
    assert answer["note"] == "no line in the window matches"


async def test_many_questions_at_once_are_all_answered() -> None:
    answers: list[dict[str, Any]] = []

    async with started("outrider_sre.logs") as client:

        async def count(service: str) -> None:
            answers.append(await ask(client, "stats", query=f'{{service="{service}"}}', by=["service"]))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for service in ("checkout", "inventory", "payments", "pricing", "catalog", "gateway"):
                    group.start_soon(count, service)

    assert len(answers) == 6
    assert all(answer["total"] > 1000 for answer in answers)


@pytest.mark.parametrize(
    ("server", "tool", "arguments"),
    [
        (logs.server, "labels", {}),
        (metrics.server, "metric_names", {}),
        (cluster.server, "events", {}),
    ],
)
async def test_a_missing_incident_folder_is_a_clear_error_with_a_hint(
    server: MCPServer[Any], tool: str, arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))

    text = await refused(server, tool, **arguments)

    assert "cannot read" in text
    assert "hint: set `SRE_INCIDENT`" in text


@pytest.mark.parametrize(
    ("server", "tool", "file", "content"),
    [
        (logs.server, "labels", "logs/shop.gateway.jsonl.gz", b"not compressed"),
        (metrics.server, "metric_names", "metrics.jsonl", b"{}\n"),
        (cluster.server, "events", "cluster.json", b"{"),
        (cluster.server, "events", "meta.json", b"{}"),
    ],
)
async def test_a_damaged_file_is_named(
    server: MCPServer[Any], tool: str, file: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(Path(logs.__file__).parent / "incident", tmp_path / "incident")
    (tmp_path / "incident" / file).write_bytes(content)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "incident"))

    text = await refused(server, tool)

    assert file in text
    assert "damaged" in text
