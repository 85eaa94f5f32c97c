"""The benchmark in a small form: every contestant does all of the work, and work that is not done is not counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import main
from bench.brain import Conversation, NoDirective, think
from bench.framing import HttpRequest, RequestReader
from bench.record import Record
from bench.roster import CONTESTANTS, REFERENCE, Contestant, chosen
from bench.scenarios import SCENARIOS
from bench.tables import table
from bench.trials import attempt

TRIAL_SECONDS = 50.0

SMALL = replace(SCENARIOS["a"], n=3, turns=2)
REQUESTS = 2 + 3 * (2 + 1)
"""What the small work needs at least: two of the supervisor, and of each worker one a turn and one for its answer."""


@pytest.mark.parametrize("contestant", chosen([REFERENCE, "outrider"]), ids=lambda contestant: contestant.name)
def test_a_contestant_does_all_of_the_work(contestant: Contestant) -> None:
    report = attempt(contestant, SMALL, TRIAL_SECONDS)

    assert report["ok"], report
    assert report["llm_errors"] == 0
    assert report["llm_requests"] >= REQUESTS


def test_the_work_is_the_same_with_the_tool_behind_an_mcp_server() -> None:
    report = attempt(chosen(["outrider"])[0], replace(SMALL, tool="mcp"), TRIAL_SECONDS)

    assert report["ok"], report


def test_a_cancellation_closes_every_request_in_flight() -> None:
    report = attempt(chosen(["outrider"])[0], replace(SCENARIOS["cancel"], n=3), TRIAL_SECONDS)

    assert report["ok"], report
    assert (report["aborted"], report["requests_after"], report["tasks_left_later"]) == (3, 0, 0)


def test_a_late_turn_stores_no_more_than_an_early_one() -> None:
    report = attempt(chosen(["outrider"])[0], replace(SCENARIOS["growth"], turns=40), TRIAL_SECONDS)

    assert report["ok"], report
    assert 0 < report["late_bytes"] < 1.1 * report["early_bytes"]


def test_a_contestant_that_cannot_start_is_a_failed_trial_with_its_last_words() -> None:
    report = attempt(Contestant("missing", "bench.no_such_module", "default"), SMALL, TRIAL_SECONDS)

    assert not report["ok"]
    assert "no_such_module" in report["stderr"]


def test_the_fake_model_is_done_only_when_every_result_is_there_and_counts_each_once() -> None:
    task = "FANOUT n=2 turns=1"
    half = Conversation(f"{task}\nRESULT id=0 ok=1, in full: RESULT id=0 ok=1", ["started"], [])
    whole = Conversation(f"{task}\nRESULT id=0 ok=1\nRESULT id=1 ok=1", ["started"], [])

    assert think(half).text == "WAITING n=2 ok=1"
    assert think(whole).text == "DONE n=2 ok=2"


def test_a_worker_whose_lookups_failed_is_no_good_result() -> None:
    report = think(Conversation("WORK id=0 turns=2", ["value-of-0-0", "error: unavailable"], ["bench__lookup"]))

    assert report.text == "RESULT id=0 ok=1"


def test_the_fake_model_calls_the_tools_it_is_told_to_call() -> None:
    directive = 'FANOUT n=1 turns=3 tool=dispatch_agent arg=task extra={"name": "worker"}'

    (dispatch,) = think(Conversation(directive, [], [])).calls
    (lookup,) = think(Conversation("WORK id=0 turns=3", ["value-of-0-0"], ["finish", "upstream__lookup"])).calls

    assert (dispatch.tool, dispatch.arguments) == ("dispatch_agent", {"task": "WORK id=0 turns=3", "name": "worker"})
    assert (lookup.tool, lookup.arguments) == ("upstream__lookup", {"key": "0-1"})


def test_a_conversation_without_a_directive_is_an_error_and_not_an_answer() -> None:
    with pytest.raises(NoDirective, match="hello"):
        think(Conversation("hello", [], []))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_requests_are_read_whatever_the_cuts_between_them(size: int) -> None:
    wire = b"POST /v1/messages?beta=true HTTP/1.1\r\nContent-Length: 4\r\n\r\n{  }GET /stats HTTP/1.1\r\n\r\n"
    reader = RequestReader()

    requests = [request for start in range(0, len(wire), size) for request in reader.feed(wire[start : start + size])]

    assert requests == [HttpRequest("/v1/messages", b"{  }"), HttpRequest("/stats", b"")]


def figures(ok: bool, cpu: float, **more: Any) -> dict[str, Any]:
    """A report of one trial."""
    return {"ok": ok, "cpu_s": cpu, "wall_s": cpu, "llm_requests": 100, **more}


def test_a_table_has_medians_and_ranges_of_the_good_rounds_and_the_reason_where_there_is_none() -> None:
    results = {
        REFERENCE: [figures(True, 1.0), figures(True, 2.0), figures(True, 9.0)],
        "outrider": [figures(True, 4.0), figures(False, 100.0, final="no end after 1 s")],
        "broken": [figures(False, 0.1, final="DONE n=50 ok=49")],
    }

    rows = {cells[1]: cells for line in table(SCENARIOS["a"], results).splitlines() if (cells := split(line))}

    assert rows[REFERENCE][2:5] == ["3/3", "2.00 (1.00–9.00)", "2.00 (1.00–9.00)"]
    assert rows["outrider"][2:7] == ["1/2", "4.00", "4.00", "40.00", "2.00"]
    assert rows["broken"][2:4] == ["0/1", "failed: DONE n=50 ok=49"]


def split(line: str) -> list[str]:
    """The cells of a row of a table; nothing for any other line."""
    return [cell.strip() for cell in line.split("|")] if line.startswith("| ") else []


def test_the_record_holds_every_report_beside_the_medians(tmp_path: Path) -> None:
    record = Record(tmp_path / "results" / "one.json", "python -m bench a", rounds=2)

    record.add(SMALL, REFERENCE, figures(True, 1.0))
    record.add(SMALL, REFERENCE, figures(True, 3.0))

    written = json.loads(record.path.read_text(encoding="utf-8"))
    scenario = written["scenarios"]["a"]
    assert (written["rounds"], scenario["n"], len(scenario["reports"][REFERENCE])) == (2, 3, 2)
    assert scenario["medians"][REFERENCE]["CPU s"] == 2.0
    assert written["machine"]["cpus"] >= 1


def test_an_unknown_contestant_is_refused_with_the_names_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a", "--only", "nobody"]) == 2

    assert capsys.readouterr().err == (
        f"error: no contestant named `nobody`\nhint: use one of {', '.join(f'`{each.name}`' for each in CONTESTANTS)}\n"
    )
