"""The rehearsal follows the data: another incident, missing lines, unreachable servers, no alert, no time."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from outrider_sre.incident import PACKAGED
from runner.service.order import Order
from tests.outrider_sre.investigating import changed_config, investigate, rehearse
from tests.support.requirement import requirement


@requirement("S2-CH-12")
async def test_another_incident_gives_another_report(tmp_path: Path, other_incident: Path) -> None:
    environ = {"SRE_INCIDENT": str(other_incident)}

    found = await investigate(tmp_path, environ=environ, alert=other_incident / "alert.json")

    summary = found.section("Summary")
    assert "the rollout of `pricing` at 07:26:40" in summary
    assert "changed `DATABASE_CONNECTIONS` from `24` to `8`" in summary
    assert "`pricing-5d4c7b9f8-wm2xk` first, at 07:28:31" in summary
    assert "the calls of `catalog` to `pricing` fail" in summary
    assert found.times("Timeline")[0] == "07:26:40"
    assert found.times("Timeline") == sorted(found.times("Timeline"))
    for other in ("inventory", "DB_POOL_SIZE", "checkout", "2.14.0", "q4tzn", "2026", " 14:"):
        assert other not in found.report


async def test_without_the_decisive_lines_the_cause_is_not_found_and_the_report_says_what_is_missing(
    tmp_path: Path,
) -> None:
    incident = tmp_path / "incident"
    shutil.copytree(PACKAGED, incident)
    log = incident / "logs" / "shop.inventory.jsonl.gz"
    lines = gzip.decompress(log.read_bytes()).splitlines(keepends=True)
    log.write_bytes(gzip.compress(b"".join(line for line in lines if b"pool exhausted" not in line)))

    found = await investigate(tmp_path, environ={"SRE_INCIDENT": str(incident)})

    assert found.ended.status == "completed"
    assert found.section("Summary").startswith("**The cause was not found.**")
    assert "Root cause" not in found.report
    assert "Why inventory fails, by its logs: no error line between" in found.section("What could not be checked")
    assert "lead, not a proof" in found.section("Summary")
    assert "pool exhausted" not in found.report


@pytest.mark.parametrize(
    ("server", "verdict"),
    [
        ("logs", "**The cause was not found.**"),
        ("metrics", "**Root cause:**"),
        ("cluster", "**The cause was found only in part:**"),
    ],
)
async def test_a_server_that_cannot_be_reached_is_named_in_report_and_events_and_the_run_goes_on(
    server: str, verdict: str, tmp_path: Path
) -> None:
    config = changed_config(tmp_path, f"-P, -m, outrider_sre.{server}]", f"-P, -m, outrider_sre.no_{server}]")

    found = await investigate(tmp_path, config=config)

    assert found.ended.status == "completed"
    assert verdict in found.section("Summary")
    assert f"cannot work without the server `{server}`" in found.section("What could not be checked")
    events = found.sql(
        "select e.agent, v.payload from events v join executions e on e.id = v.execution_id where v.type = ?",
        "upstream.unavailable",
    )
    assert {row["agent"] for row in events} == {
        {"logs": "LogAnalyzer", "metrics": "MetricChecker"}.get(server, "K8sInspector")
    }
    assert all(f'"{server}"' in row["payload"] for row in events)


async def test_tools_that_fail_are_listed_as_not_checked(tmp_path: Path) -> None:
    found = await investigate(tmp_path, environ={"SRE_INCIDENT": str(tmp_path / "nowhere")})

    unchecked = found.section("What could not be checked")

    assert found.section("Summary") == "**The cause was not found.**"
    assert found.section("Evidence") == "None."
    for tool in ("logs.stats", "metrics.alerts", "cluster.rollouts"):
        assert f"`{tool}` failed: " in unchecked


async def test_without_an_alert_the_investigator_lets_the_metrics_tell_which_one_fires(tmp_path: Path) -> None:
    found = await rehearse(tmp_path, Order("Investigator", "why is the shop slow?"))

    assert "changed `DB_POOL_SIZE` from `20` to `10`" in found.section("Summary")
    sent = found.sql("select agent from executions where role = 'sub_agent' order by created_at, position")
    assert [row["agent"] for row in sent] == ["MetricChecker", "LogAnalyzer", "K8sInspector", "K8sInspector"]


async def test_an_agent_started_by_hand_finds_its_own_starting_point(tmp_path: Path) -> None:
    found = await rehearse(tmp_path, Order("LogAnalyzer", "what is wrong?"))

    assert found.report.startswith("`inventory` fails with `could not get a database connection: pool exhausted")


async def test_an_agent_without_a_part_in_the_rehearsal_says_so(tmp_path: Path) -> None:
    found = await rehearse(tmp_path, Order("Synthesizer", "merge these"))

    assert "`Synthesizer` has no part in it" in found.report
    assert "Set an API key" in found.report


async def test_agents_that_must_conclude_early_report_what_they_have_and_what_is_left(tmp_path: Path) -> None:
    config = changed_config(tmp_path, "    max_iterations: 20 ", "    max_iterations: 2 ")
    config.write_text(
        config.read_text("utf-8").replace("    type: orchestrator ", "    max_iterations: 20\n    type: orchestrator "),
        "utf-8",
    )

    found = await investigate(tmp_path, config=config)

    assert found.ended.status == "completed"
    assert found.section("Summary").startswith("**The cause was not found.** The trail ends at `inventory`")
    unchecked = found.section("What could not be checked")
    assert "Why inventory fails, by its logs: they were not read to the end" in unchecked
    assert "All that MetricChecker was asked: it had to conclude early" in unchecked


async def test_the_investigator_concludes_too_when_its_turns_are_over(tmp_path: Path) -> None:
    config = changed_config(tmp_path, "    type: orchestrator ", "    max_iterations: 1\n    type: orchestrator ")

    found = await investigate(tmp_path, config=config)

    assert found.ended.status == "completed"
    assert found.section("Summary") == "**The cause was not found.**"
    assert "LogAnalyzer could not be sent" in found.section("What could not be checked")
