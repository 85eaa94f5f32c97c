"""The shipped investigation from alert to report, and what its rows say about it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from outrider_sre.incident import ALERT
from tests.outrider_sre.investigating import CHAIN, CONFIG, Investigation, investigate
from tests.support.requirement import requirement
from tests.support.sources import ROOT


@pytest.fixture(scope="module")
async def investigation(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> Investigation:
    """The packaged incident, investigated once."""
    return await investigate(tmp_path_factory.mktemp("investigation"))


@requirement("S2-CH-12")
async def test_an_alert_leads_through_logs_metrics_and_cluster_to_the_root_cause(investigation: Investigation) -> None:
    summary = investigation.section("Summary")

    assert investigation.ended.status == "completed"
    assert "**Root cause:**" in summary
    assert "the rollout of `inventory` at 14:05:12" in summary
    assert "changed `DB_POOL_SIZE` from `20` to `10`" in summary
    assert "pool exhausted (10 of 10 in use" in summary
    assert "`inventory-6b8f9d7c4-q4tzn` first, at 14:07:03" in summary
    assert "from 14:07:59 on the calls of `checkout` to `inventory` fail" in summary
    assert investigation.section("What could not be checked") == "Every source that was asked has answered."
    assert "Set `DB_POOL_SIZE` of `inventory` back to `20`" in investigation.section("Suggested next steps")


async def test_the_summary_of_the_result_is_the_root_cause(investigation: Investigation) -> None:
    assert investigation.ended.result is not None

    assert "**Root cause:** the rollout of `inventory`" in investigation.ended.result.summary


async def test_the_timeline_goes_from_the_change_to_the_alert_in_order(investigation: Investigation) -> None:
    times = investigation.times("Timeline")

    assert times == sorted(times)
    assert times[0] == "14:05:12"
    assert times[-1] == "14:12:30"
    assert {"14:07:03", "14:07:59", "14:08:03", "14:10:30"} <= set(times)


@pytest.mark.parametrize("title", ["Evidence", "Ruled out"])
async def test_every_item_points_at_the_tool_call_that_shows_it(investigation: Investigation, title: str) -> None:
    rows = {row["call_id"]: row for row in investigation.sql("select call_id, tool, status, result from tool_calls")}

    items = investigation.citations(title)

    assert len(items) >= 8
    for item in items:
        row = rows[item.call]
        assert (row["tool"], row["status"]) == (item.tool, "completed")
        for words in item.quoted:
            assert re.search(rf"(?<!\d){re.escape(words)}(?!\d)", row["result"]), f"`{words}` is not in {item.call}"


async def test_the_evidence_comes_from_all_three_servers(investigation: Investigation) -> None:
    servers = {item.tool.partition(".")[0] for item in investigation.citations("Evidence")}

    assert servers == {"logs", "metrics", "cluster"}


async def test_what_has_nothing_to_do_with_it_is_ruled_out_with_a_reason(investigation: Investigation) -> None:
    ruled_out = investigation.section("Ruled out")

    for herring in (
        "OOMKilled",
        "EvictionThresholdMet",
        "CertificateExpiresSoon",
        "recommendations",
        "rollout of `catalog`",
    ):
        assert herring in ruled_out
    assert "inventory" not in ruled_out


@requirement("S2-CH-12")
async def test_the_chain_is_the_root_and_the_agents_the_investigator_sent_are_its_children(
    investigation: Investigation,
) -> None:
    rows = investigation.sql("select * from executions order by created_at, position")
    lead = next(row for row in rows if row["agent"] == "Investigator")
    children = [row for row in rows if row["parent_execution_id"] == lead["id"]]

    assert rows[0]["agent"] == CHAIN
    assert rows[0]["parent_execution_id"] is None
    assert lead["parent_execution_id"] == rows[0]["id"]
    assert lead["stage"] == "investigate"
    assert Counter(row["agent"] for row in children) == {"LogAnalyzer": 1, "MetricChecker": 1, "K8sInspector": 2}
    assert len(rows) == 2 + len(children)
    assert {row["status"] for row in rows} == {"completed"}
    assert {row["root_execution_id"] for row in rows} == {rows[0]["id"]}


async def test_an_agent_is_told_the_facts_of_the_alert_in_its_task(investigation: Investigation) -> None:
    alert = json.loads(ALERT.read_text(encoding="utf-8"))

    tasks = investigation.sql("select task from executions where role = 'sub_agent'")

    for row in tasks:
        for fact in (alert["labels"]["service"], alert["labels"]["namespace"], alert["startsAt"]):
            assert fact in row["task"]


async def test_the_first_three_are_sent_in_one_turn_and_the_suspect_is_looked_at_after_their_reports(
    investigation: Investigation,
) -> None:
    dispatches = investigation.sql("select * from tool_calls where tool = 'dispatch_agent' order by started_at, position")
    follow_up = json.loads(dispatches[-1]["arguments"])

    assert len({row["message_id"] for row in dispatches[:3]}) == 1
    assert dispatches[3]["message_id"] != dispatches[0]["message_id"]
    assert "inventory" in follow_up["task"]
    assert "pod: inventory-6b8f9d7c4-q4tzn" in follow_up["context"]


async def test_each_agent_asks_several_times_and_later_questions_follow_from_earlier_answers(
    investigation: Investigation,
) -> None:
    rows = investigation.sql(
        "select e.agent, e.id, t.message_id, t.arguments from tool_calls t join executions e on e.id = t.execution_id "
        "where e.role = 'sub_agent' order by t.started_at, t.position"
    )
    for execution in {row["id"] for row in rows}:
        own = [row for row in rows if row["id"] == execution]
        assert len({row["message_id"] for row in own}) >= 2
    log_calls = [row["arguments"] for row in rows if row["agent"] == "LogAnalyzer"]
    assert "inventory" not in log_calls[0]
    assert "inventory" in log_calls[-1]


async def test_the_sums_of_the_tree_are_those_of_the_stored_calls(investigation: Investigation) -> None:
    tree = {row["id"]: row for row in investigation.sql("select * from execution_tree")}
    calls = investigation.sql("select * from model_calls")

    def tokens_of(row: dict[str, int]) -> int:
        return sum(row[name] for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"))

    def below(execution: str) -> set[str]:
        children = [row["id"] for row in tree.values() if row["parent_execution_id"] == execution]
        return {execution}.union(*map(below, children))

    assert calls
    assert all(row["rehearsed"] == 1 for row in calls)
    for execution, row in tree.items():
        own = [call for call in calls if call["execution_id"] == execution]
        whole = [call for call in calls if call["execution_id"] in below(execution)]
        assert row["own_tokens"] == sum(map(tokens_of, own))
        assert row["subtree_tokens"] == sum(map(tokens_of, whole))
        assert row["subtree_cost_usd"] == pytest.approx(sum(call["cost_usd"] for call in whole))
        assert row["subtree_executions"] == len(below(execution))


async def test_depth_and_path_of_the_tree_tell_where_an_execution_stands(investigation: Investigation) -> None:
    places = {(row["depth"], row["path"]) for row in investigation.sql("select depth, path from execution_tree")}

    assert places == {
        (0, CHAIN),
        (1, f"{CHAIN}/Investigator"),
        (2, f"{CHAIN}/Investigator/LogAnalyzer"),
        (2, f"{CHAIN}/Investigator/MetricChecker"),
        (2, f"{CHAIN}/Investigator/K8sInspector"),
    }


def test_neither_configuration_nor_rehearsal_know_anything_of_the_incident() -> None:
    text = CONFIG.read_text("utf-8") + (ROOT / "server" / "sre" / "rehearsal.yaml").read_text("utf-8")

    for secret in ("inventory", "pool", "2.14", "6b8f9d7c4", "q4tzn", "14:0", "2026-", "shop"):
        assert secret not in text


async def test_a_configuration_with_the_former_names_of_the_package_still_runs(tmp_path: Path) -> None:
    """Snapshots of interrupted trees name `server.sre`, and its rehearsal by path."""
    former = tmp_path / "former.yaml"
    text = CONFIG.read_text(encoding="utf-8")
    former.write_text(text.replace("-m, outrider_sre.", "-m, server.sre.").replace("/outrider_sre/", "/server/sre/"))
    assert "outrider_sre" not in former.read_text(encoding="utf-8")

    found = await investigate(tmp_path, config=former)

    assert found.ended.status == "completed"
    assert "**Root cause:**" in found.section("Summary")
    assert found.sql("select count(*) as broken from events where type = 'upstream.unavailable'") == [{"broken": 0}]
