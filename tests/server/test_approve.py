"""`outrider approve`: a person at another terminal allows or refuses what a run waits for."""

import json
import subprocess
from pathlib import Path

from tests.support.shell import CONFIG, make_shell

GATED = CONFIG.replace("timeout: 50s}", "timeout: 50s, gates: {wait: ask}}")


def until_asked(run: "subprocess.Popen[str]") -> str:
    """The approval that a run says it waits for."""
    assert run.stderr is not None
    for line in run.stderr:
        if "waiting for approval of gate.wait: outrider approve " in line:
            return line.split()[-1]
    raise AssertionError("nothing was asked")


def test_a_person_allows_and_refuses_from_another_process_what_a_run_waits_for(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, GATED)
    opened = tmp_path / "opened"
    opened.write_text("the gate is open", encoding="utf-8")
    with shell.start("run", "Lead", "clean up", "--input", "both=true", GATE=str(opened)) as run:
        first = until_asked(run)
        [entry] = shell.json("ps")
        listed = shell.type("approve")
        shown = shell.type("show", entry["id"])
        [waiting] = shell.json("approve")
        unknown = shell.type("approve", "zzzz")
        unclear = shell.type("approve", "--deny")
        allowed = shell.type("approve", entry["id"])  # an execution with one call that waits
        again = shell.type("approve", first)

        second = until_asked(run)
        refused = shell.type("approve", second[:16], "--deny", "--reason", "one is enough", "--json")
        out, _ = run.communicate(timeout=30)
        nothing = shell.type("approve")
        over = shell.type("approve", entry["id"])

    assert entry["doing"] == f"Waiter waiting for approval of gate.wait: outrider approve {first}"
    for text in (listed.stdout, shown.stdout):
        assert first in text
        assert "gate.wait" in text
    assert "arguments  {}" in listed.stdout
    assert "`outrider approve ID` allows a call" in listed.stderr
    assert (waiting["approval_id"], waiting["agent"], waiting["arguments"]) == (first, "Waiter", {})
    assert unknown.returncode == 4
    assert "`outrider approve` lists the calls that wait" in unknown.stderr
    assert unclear.returncode == 2
    assert (allowed.returncode, allowed.stdout.splitlines()[0]) == (0, "approved")
    assert again.returncode == 3
    assert f"approval `{first}` was approved by" in again.stderr
    assert json.loads(refused.stdout)["decision"] == "denied"
    assert (run.returncode, "it is done" in out) == (0, True)
    calls = shell.rows("select status, result, error_type from tool_calls where tool = 'gate.wait' order by started_at")
    assert [(call["status"], call["error_type"]) for call in calls] == [("completed", None), ("failed", "denied")]
    assert "one is enough" in calls[1]["result"]
    assert "nothing waits for approval" in nothing.stderr
    assert over.returncode == 4
