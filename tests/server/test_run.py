"""`outrider run` and `outrider demo`: the answer on stdout, everything else on stderr, the exit code for scripts."""

import json
import re
from pathlib import Path

import pytest

from tests.support.requirement import requirement
from tests.support.shell import CONFIG, Shell, make_shell

ALERT = {
    "labels": {"alertname": "DiskFull"},
    "annotations": {"summary": "the disk is full"},
    "startsAt": "2026-01-01T00:00:00Z",
}


def test_the_answer_goes_to_stdout_and_the_tree_to_stderr(shell: Shell) -> None:
    done = shell.type("run", "Quick", "look")

    assert (done.returncode, done.stdout) == (0, "[rehearsed]\n\n# Finding\n\nat once\n")
    assert re.search(r"◐ Quick  running\n", done.stderr)
    assert re.search(r"● Quick  completed: at once \([\d.]+s, \d+ tok, rehearsed\)", done.stderr)
    assert re.search(r"note: 1 execution, .* rehearsed; `outrider show \w{6}` shows it again", done.stderr)
    assert "\x1b" not in done.stderr


def test_json_is_one_object_with_result_and_usage(shell: Shell) -> None:
    told = shell.json("run", "Quick", "look")

    assert (told["agent"], told["status"], told["outcome"], told["error"]) == ("Quick", "completed", "completed", None)
    assert told["result"]["output"] == "# Finding\n\nat once"
    assert told["rehearsed"] is True
    row = shell.rows("select * from executions")[0]
    assert told["execution_id"] == row["id"]
    assert told["usage"]["tokens"] == row["input_tokens"] + row["output_tokens"]


@requirement("S2-CH-1")
@pytest.mark.parametrize("source", ["file", "stdin"])
def test_an_alert_chooses_its_chain_and_is_the_input(shell: Shell, source: str) -> None:
    text = json.dumps(ALERT)
    shell.folder.joinpath("alert.json").write_text(text, encoding="utf-8")

    done = shell.type("run", "--alert", "alert.json" if source == "file" else "-", stdin=text)

    assert done.returncode == 0, done.stderr
    root = shell.rows("select agent, task, input from executions where parent_execution_id is null")[0]
    assert (root["agent"], root["task"]) == ("look", "Investigate the alert DiskFull: the disk is full")
    assert json.loads(root["input"]) == ALERT


def test_inputs_are_data_and_a_timeout_bounds_the_execution(shell: Shell) -> None:
    done = shell.type("run", "Quick", "look", "--input", "service=checkout", "--input", "limit=5", "--timeout", "30s")

    assert done.returncode == 0, done.stderr
    row = shell.rows("select input, timeout_seconds from executions")[0]
    assert (json.loads(row["input"]), row["timeout_seconds"]) == ({"service": "checkout", "limit": 5}, 30)


def test_a_run_for_a_user_is_theirs_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, CONFIG + 'users: {alex: {aliases: ["+15550100"]}}\n')

    unknown = shell.type("run", "Quick", "look", "--user", "alx")
    done = shell.type("run", "Quick", "look", "--user", "+15550100")

    assert unknown.returncode == 4
    assert unknown.stderr.startswith(f"error: no user named `alx`{shell.places}\n\nhint: did you mean `alex`?")
    assert done.returncode == 0, done.stderr
    assert [row["user_id"] for row in shell.rows("select user_id from executions")] == ["alex"]


def test_a_failed_execution_exits_with_1_and_says_why(shell: Shell) -> None:
    done = shell.type("run", "Broken", "look")

    assert (done.returncode, done.stdout) == (1, "")
    assert "✕ Broken  failed: the model could not answer" in done.stderr
    assert "error: Broken failed: the model could not answer" in done.stderr
    assert "hint: add such a turn" in done.stderr


def test_an_execution_goes_on_without_an_upstream_that_cannot_be_reached_and_says_so(shell: Shell) -> None:
    done = shell.type("run", "Lonely", "look")

    assert (done.returncode, done.stdout) == (0, "[rehearsed] without it\n")
    missing = "upstream absent unavailable: cannot start `no-such-program`"
    assert f"! Lonely  {missing}" in done.stderr
    assert f"note: Lonely: {missing}" in done.stderr
    identifier = shell.rows("select id from executions")[0]["id"]
    assert missing in shell.type("show", identifier, "--tree").stdout
    assert missing in shell.json("show", identifier)["warnings"][0]


def test_options_stand_before_or_after_the_command(shell: Shell, tmp_path: Path) -> None:
    before = shell.type("--db", "before.db", "run", "Quick", "look")
    after = shell.type("run", "Quick", "look", "--db", f"sqlite:///{tmp_path}/after.db")

    assert (before.returncode, after.returncode) == (0, 0), before.stderr + after.stderr
    assert tmp_path.joinpath("before.db").exists()
    assert tmp_path.joinpath("after.db").exists()
    assert not shell.database.exists()


def test_the_demo_runs_offline_and_says_what_to_type_next(shell: Shell) -> None:
    done = shell.type("demo", "--fast", fresh=True)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[rehearsed]\n\n## Summary\n")
    assert "sre-investigation › Investigator › LogAnalyzer" in done.stderr
    assert re.search(r"note: \d+ executions, .* tok, rehearsed", done.stderr)
    shown = re.search(r"what to type next\n  outrider (show \w+ --tree)\n", done.stderr)
    assert shown is not None
    tree = shell.type(*shown[1].split())
    assert (tree.returncode, tree.stdout.count("LogAnalyzer") > 0) == (0, True)
    evidence = re.search(r"outrider show (toolu_\w+)", done.stdout)
    assert evidence is not None
    assert shell.type("show", evidence[1]).stdout.startswith("── tool ")


def test_the_demo_asks_no_real_model_even_with_a_key(shell: Shell) -> None:
    done = shell.type("demo", "--fast", ANTHROPIC_API_KEY="a-key", ANTHROPIC_BASE_URL="http://127.0.0.1:9")

    assert done.returncode == 0, done.stderr
    assert {row["rehearsed"] for row in shell.rows("select rehearsed from model_calls")} == {1}


def test_a_live_demo_without_a_key_is_refused(shell: Shell) -> None:
    done = shell.type("demo", "--live")

    assert done.returncode == 2
    assert "has no API key\n\nhint: set `ANTHROPIC_API_KEY`, or leave `--live` away for a rehearsed run\n" in done.stderr
    assert not shell.database.exists()
