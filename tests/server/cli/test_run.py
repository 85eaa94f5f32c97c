"""`outrider run` and `outrider demo`: the answer on stdout, everything else on stderr, the exit code for scripts."""

import json
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.support.requirement import requirement
from tests.support.shell import CONFIG, Shell, held, make_shell
from tests.support.upstream_specs import ROOT

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


CONFIG_OF_TWO = CONFIG + "  tidy: {alert_types: [DiskDirty, DiskOld], stages: [{name: only, agents: [Quick]}]}\n"


def group(*alerts: tuple[str, str], **more: object) -> str:
    """A webhook of Alertmanager with alerts of these names, each firing or resolved."""
    listed = [
        {"status": status, "labels": {"alertname": name, "pod": f"p{number}"}, "annotations": {"summary": f"{name}!"}}
        for number, (name, status) in enumerate(alerts)
    ]
    fires = any(status == "firing" for _, status in alerts)
    common = {"groupLabels": {"team": "db"}, "commonLabels": {"team": "db"}, "commonAnnotations": {}}
    return json.dumps({"version": "4", "status": "firing" if fires else "resolved", **common, "alerts": listed, **more})


@pytest.mark.parametrize(
    ("words", "sent", "names"),
    [
        ((), json.dumps({**ALERT, "status": "resolved"}), ["DiskFull"]),
        (("look", "investigate"), group(("DiskFull", "resolved")), ["DiskFull"]),
        ((), group(("DiskFull", "resolved"), ("DiskDirty", "resolved")), ["DiskFull", "DiskDirty"]),
    ],
)
def test_a_resolved_alert_starts_nothing_and_says_so(shell: Shell, words: list[str], sent: str, names: list[str]) -> None:
    done = shell.type("run", *words, "--alert", "-", stdin=sent)
    told = shell.type("run", *words, "--alert", "-", "--json", stdin=sent)

    note = f"note: the alert {', '.join(names)} is resolved: nothing was started\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", note)
    assert (told.returncode, told.stderr) == (0, note)
    assert json.loads(told.stdout) == {"started": False, "reason": "resolved", "alerts": names}
    assert not shell.database.exists()


@pytest.mark.parametrize(
    ("sent", "chain", "task"),
    [
        (group(("DiskFull", "firing"), ("Other", "firing")), "look", "alerts DiskFull, Other: DiskFull!; Other!"),
        (
            group(("DiskFull", "firing"), ("DiskDirty", "firing"), ("DiskOld", "firing")),
            "tidy",
            "alerts DiskFull, DiskDirty, DiskOld: DiskFull!; DiskDirty!; DiskOld!",
        ),
        (
            group(("DiskDirty", "firing"), ("DiskFull", "firing")),
            "tidy",
            "alerts DiskDirty, DiskFull: DiskDirty!; DiskFull!",
        ),
        (group(("DiskDirty", "resolved"), ("DiskFull", "firing")), "look", "alert DiskFull: DiskFull!"),
        (
            group(("DiskDirty", "firing"), ("Other", "firing"), groupLabels={"alertname": "DiskFull"}),
            "look",
            "alerts DiskDirty, Other: DiskDirty!; Other!",
        ),
        (
            group(("DiskFull", "firing"), ("DiskFull", "firing"), commonAnnotations={"summary": "all full"}),
            "look",
            "alert DiskFull: all full",
        ),
    ],
)
def test_a_group_of_alerts_starts_one_chain_and_none_of_them_is_dropped(
    tmp_path: Path, sent: str, chain: str, task: str
) -> None:
    shell = make_shell(tmp_path, CONFIG_OF_TWO)

    done = shell.type("run", "--alert", "-", stdin=sent)

    assert done.returncode == 0, done.stderr
    root = shell.rows("select agent, task, input from executions where parent_execution_id is null")[0]
    assert (root["agent"], root["task"]) == (chain, f"Investigate the {task}")
    assert json.loads(root["input"]) == json.loads(sent)


def test_the_same_idempotency_key_again_shows_the_earlier_execution_and_starts_none(shell: Shell) -> None:
    first = shell.json("run", "Quick", "look", "--idempotency-key", "k1")
    again = shell.type("run", "Quick", "look", "--idempotency-key", "k1", "--json")
    words = shell.type("run", "Quick", "look", "--idempotency-key", "k1")
    other = shell.type("run", "Quick", "look elsewhere", "--idempotency-key", "k1")

    assert "earlier" not in first
    told = json.loads(again.stdout)
    assert (told.pop("earlier"), told["execution_id"], told["result"]) == (True, first["execution_id"], first["result"])
    assert (words.returncode, words.stdout) == (0, "[rehearsed]\n\n# Finding\n\nat once\n")
    assert "the key was used before: this is execution" in words.stderr
    assert other.returncode == 3
    assert "the key `k1` was used for another dispatch" in other.stderr
    assert len(shell.rows("select 1 from executions")) == 1
    assert shell.type("run", "Quick", "look", "--idempotency-key", "").returncode == 2


def test_a_key_whose_execution_runs_elsewhere_waits_for_it_and_leaves_it_alone(shell: Shell) -> None:
    gate, words = shell.gate("gate"), ("run", "Waiter", "wait", "--idempotency-key", "k1")
    with shell.start(*words, GATE=str(gate)) as first:
        with held(gate), shell.start(*words) as second:
            assert second.stderr is not None
            said = next(line for line in second.stderr if "the key was used before" in line)
            second.send_signal(signal.SIGINT)
            assert second.wait(20) == 130
        answer, _ = first.communicate(timeout=20)

    assert "(running)" in said
    assert "I waited" in answer
    assert [row["status"] for row in shell.rows("select status from executions")] == ["completed"]


def test_a_key_whose_execution_lost_its_process_starts_none_and_says_how_to_go_on(shell: Shell) -> None:
    gate, words = shell.gate("gate"), ("run", "Waiter", "wait", "--idempotency-key", "k1")
    with shell.start(*words, GATE=str(gate)) as first, held(gate):
        first.kill()
        first.wait(20)
    again = shell.type(*words)

    [row] = shell.rows("select id, status from executions")
    assert (again.returncode, again.stdout, row["status"]) == (1, "", "running")
    assert "error: the process that ran it is gone, and it has not ended" in again.stderr
    assert f"resume {row['id']}` resumes it" in again.stderr


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
    assert re.search(r"error: the model could not answer: .*\n  in Broken \(failed, \w{6}\)\n\nhint: ", done.stderr)
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


def test_a_run_without_the_program_of_a_required_server_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, CONFIG.replace(", required: false", ""))
    done = shell.type("run", "Lonely", "look")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: `Lonely` cannot work without the server `absent`, which cannot start `no-such-program`: no such program\n\n"
        "hint: check `mcp_servers.absent`, or set `required: false` there to let its agents work without it\n"
    )
    assert not shell.database.exists()


def test_an_answer_that_a_lost_server_left_unfinished_is_told_as_an_error(tmp_path: Path) -> None:
    once = (
        "import os, sys; os.path.exists('flag') or sys.exit('gone'); os.remove('flag'); "
        f"sys.path.insert(0, {str(ROOT)!r}); sys.argv[1:] = ['plain']; "
        "import runpy; runpy.run_module('tests.support.upstream_server', run_name='__main__')"
    )
    config = json.dumps(
        {
            "models": {"rehearsed": {"model": "none", "rehearsal": "script.yaml"}},
            "mcp_servers": {"frail": {"command": [sys.executable, "-c", once], "cwd": "."}},
            "agents": {"Lonely": {"mcp_servers": ["frail"]}},
        }
    )
    shell = make_shell(tmp_path, config)
    script = "agents: {Lonely: [{when: start, call: [{tool: frail.die}]}, {when: any, say: half of it}]}"
    shell.folder.joinpath("script.yaml").write_text(script, encoding="utf-8")
    shell.folder.joinpath("flag").touch()
    done = shell.type("run", "Lonely", "look")

    assert (done.returncode, done.stdout) == (1, "[rehearsed] half of it\n"), done.stderr
    assert "note: the answer is partial (tool_unavailable)\n" in done.stderr
    assert (
        "error: Lonely has only part of an answer: `Lonely` cannot work without the server `frail`, which " in done.stderr
    )
    assert "hint: check `mcp_servers.frail`" in done.stderr


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
    assert "sre-investigation › Investigator (investigate) › LogAnalyzer" in done.stderr
    assert re.search(r"note: \d+ executions, .* tok, rehearsed", done.stderr)
    shown = re.search(r"what to type next\n  outrider (show \w+ --tree)\n", done.stderr)
    assert shown is not None
    tree = shell.type(*shown[1].split())
    assert (tree.returncode, tree.stdout.count("LogAnalyzer") > 0) == (0, True)
    assert "\n  outrider dashboard\n" in done.stderr
    run = shlex.split(done.stderr.splitlines()[-1])
    assert run[1] == "--config", "the configuration here has other agents"
    assert run[4] in [agent["name"] for agent in shell.json("agents", *run[1:3])["agents"]]
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
    assert "has no API key\n\nhint: set `ANTHROPIC_API_KEY`, or omit `--live` for a rehearsed run\n" in done.stderr
    assert not shell.database.exists()
