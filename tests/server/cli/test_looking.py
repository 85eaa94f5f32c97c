"""`ps`, `show`, `sql`, `agents`, `config check`: what was done and what could be, for people and for programs."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from server.cli import main as entry
from server.cli.show.transcript_text import TranscriptText
from tests.support.requirement import requirement
from tests.support.shell import CONFIG, Shell, held, make_shell
from tests.support.terminal import watched


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shell, str]:
    """A shell with a finished tree, Lead and a Waiter with one tool call, and the id of Lead."""
    shell = make_shell(tmp_path_factory.mktemp("ran"))
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", "--json", GATE=str(gate)) as running:
        with held(gate) as writer:
            writer.write("open \x1b[31mnow")
        answer, told = running.communicate(timeout=40)
    assert running.returncode == 0, told
    return shell, json.loads(answer)["execution_id"]


def test_an_execution_is_shown_with_its_facts_its_answer_its_tree_and_its_transcript(ran: tuple[Shell, str]) -> None:
    shell, identifier = ran
    waiter = shell.rows("select id from executions where agent = 'Waiter'")[0]["id"]

    whole = shell.type("show", identifier).stdout
    assert f"execution  {identifier}\nagent      Lead (loop)\nstatus     ● completed\ntask       go\n" in whole
    assert "\n\n[rehearsed] it is done\n\n" in whole
    tree = shell.type("show", identifier, "--tree").stdout.splitlines()
    assert [line.split()[0] for line in tree] == ["●", "└─", "total"]
    assert "rehearsed" in tree[-1]
    transcript = shell.type("show", waiter, "--transcript").stdout
    short, above = waiter[-6:], identifier[-6:]
    assert re.match(
        rf"   0\.\ds  Lead {above} → Waiter {short} \(task\)\n         wait\n\n"
        rf" +\S+  Waiter {short} · turn 1 · [\d,]+ tok · rehearsed\n         → gate\.wait \{{\}}\n"
        r"           completed · [\d.]+s · toolu_\w+\n           open .*\n\n"
        rf" +\S+  Waiter {short} · turn 2 · [\d,]+ tok · rehearsed\n         I waited\n\n● Waiter {short} completed\n",
        transcript,
    ), transcript


def test_the_talk_of_a_whole_tree_is_shown_in_order_by_agent_and_id(ran: tuple[Shell, str]) -> None:
    shell, identifier = ran
    waiter = shell.rows("select id from executions where agent = 'Waiter'")[0]["id"]
    lead, below = f"Lead {identifier[-6:]}", f"Waiter {waiter[-6:]}"

    talk = shell.type("show", identifier[-6:], "--transcript", "--all").stdout

    order = [
        f"  caller → {lead} (task)",
        f"  {lead} · turn 1",
        "→ dispatch_agent ",
        f"● {below}: `outrider show {waiter[-6:]} --transcript`",
        f"  {lead} → {below} (task)",
        f"  {below} · turn 1",
        "→ gate.wait ",
        f"  Outrider → {lead} (delivery)",
    ]
    found = [talk.index(each) for each in order]
    assert found == sorted(found), talk
    assert "I waited" in talk
    told = shell.json("show", identifier, "--transcript", "--all")
    assert [each["agent"] for each in told["executions"]] == ["Lead", "Waiter"]
    whose = {(each["agent"], each["execution_id"]) for each in told["messages"]}
    assert whose == {("Lead", identifier), ("Waiter", waiter)}
    assert [each["tool"] for each in told["tool_calls"]] == ["dispatch_agent", "gate.wait"]
    alone = shell.type("show", identifier, "--all")
    assert (alone.returncode, "hint: add `--transcript`" in alone.stderr) == (2, True)


def test_on_a_terminal_results_and_tasks_are_shortened_and_a_line_says_how_to_see_the_rest(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    gate, task = shell.gate("gate"), "\n".join(f"line {number}" for number in range(20))
    with shell.start("run", "Waiter", task, GATE=str(gate)) as running:
        with held(gate) as writer:
            writer.write("long " * 100)
        running.communicate(timeout=40)
    waiter, call = shell.rows("select id from executions")[0]["id"], shell.rows("select id from tool_calls")[0]["id"]

    _, lines = watched(shell, "show", waiter, "--transcript", columns=50)
    piped = shell.type("show", waiter, "--transcript").stdout

    assert max(len(line) for line in lines if "shows all" not in line) <= 50, "only a command to type stays whole"
    assert f"  … 13 more lines; `outrider show {waiter[-6:]} --transcript | less` shows all" in " ".join(lines).replace(
        "  ", " "
    )
    assert "line 19" not in "".join(lines)
    assert any(line.endswith(("long…", "lo…")) for line in lines)
    assert f"`outrider show {call}` shows all" in " ".join(line.strip() for line in lines)
    assert "line 19" in piped
    assert "long " * 99 in piped


def test_thoughts_are_told_from_what_was_said() -> None:
    identifier = "0123456789"
    row = {"id": identifier, "agent": "Lead", "principal": None, "parent_execution_id": None, "tool_call_id": None}
    state = {"created_at": "2026-01-01T00:00:00Z", "status": "running", "outcome": None, "error": None}
    said = {
        "execution_id": identifier,
        "id": "1",
        "role": "assistant",
        "kind": "reply",
        "created_at": "2026-01-01T00:01:05Z",
    }
    blocks = [
        {"type": "thinking", "thinking": "is it the disk"},
        {"type": "redacted_thinking"},
        {"type": "text", "text": "yes"},
    ]

    talk = TranscriptText([{**row, **state}], [{**said, "content": json.dumps(blocks)}], (), ())

    head, *told = [line.text.strip() for line in talk.lines()]
    assert head == f"1m 05s  Lead {identifier[-6:]}"
    assert told[:3] == ["(thinking) is it the disk", "(thinking, hidden by the provider)", "yes"]


def test_a_tool_call_is_shown_as_evidence_and_cannot_paint_the_terminal(ran: tuple[Shell, str]) -> None:
    shell, _ = ran
    call = shell.rows("select id, call_id from tool_calls where server = 'gate'")[0]

    for identifier in call.values():
        shown = shell.type("show", identifier).stdout
        assert shown.startswith(f"── tool gate.wait (completed) {call['call_id']}\nasked by Waiter, execution ")
        assert "open �[31mnow" in shown
        assert shell.json("show", identifier)["result"] == "open \x1b[31mnow"


@requirement("S1-RM-2")
def test_ps_shows_what_agents_handed_to_each_other(ran: tuple[Shell, str]) -> None:
    shell, identifier = ran

    told = shell.json("ps", "--registry")
    assert (told["active_delegations"], told["total_tracked"]) == (0, 1)
    [waiter] = told["delegations"]
    assert (waiter["subagent"], waiter["delegation_path"]) == ("Waiter", ["Lead", "Waiter"])
    heading, line = shell.type("ps", "--registry").stdout.splitlines()
    assert "sub-agent" in heading
    assert "Lead → Waiter" in line
    assert waiter["execution_id"].endswith(line.split()[1])
    assert identifier not in line


def test_show_gives_programs_the_rows_and_the_tree(ran: tuple[Shell, str]) -> None:
    shell, identifier = ran

    told = shell.json("show", identifier)
    assert (told["execution_id"], told["status"], told["result"]["output"]) == (identifier, "completed", "it is done")
    assert [(each["agent"], each["level"]) for each in told["tree"]] == [("Lead", 0), ("Waiter", 1)]
    assert shell.json("show", identifier, "--tree") == told["tree"]
    talk = shell.json("show", identifier, "--transcript")
    assert talk["messages"][0]["role"] == "user"
    assert talk["tool_calls"][0]["arguments"] == {"name": "Waiter", "task": "wait"}


STAGES = """
agent_chains:
  long: {stages: [{name: begin, agents: [Quick]}, {name: hold, agents: [Waiter]}, {name: tell, agents: [Quick]}]}
"""


def test_a_chain_says_in_which_stage_it_is_in_every_view(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, CONFIG.split("agent_chains:")[0] + STAGES)
    gate = shell.gate("gate")
    with shell.start("run", "long", "look around", GATE=str(gate)) as running:
        with held(gate):
            [entry] = shell.json("ps")
            tree = shell.type("show", entry["short_id"], "--tree").stdout
        _, told = running.communicate(timeout=40)

    assert entry["doing"].startswith("stage 2 of 3: hold · Waiter: calling gate.wait")
    lines = [" ".join(line.split()) for line in tree.splitlines()]
    assert lines[0].startswith(f"◐ long {entry['short_id']} look around stage 2 of 3: hold ")
    assert lines[1].startswith("├─ ● Quick (begin) ")
    assert lines[2].startswith("└─ ◐ Waiter (hold) ")
    assert re.search(r"  \w{6}  ○ long  pending: look around\n", told)
    assert [line.split("long  ")[1] for line in told.splitlines() if "◐ long  stage" in line] == [
        "stage 1 of 3: begin",
        "stage 2 of 3: hold",
        "stage 3 of 3: tell",
    ]
    stored = shell.rows("select payload from events where type = 'execution.progress' and payload like '%stage%'")
    assert [(json.loads(row["payload"])["number"], json.loads(row["payload"])["of"]) for row in stored] == [
        (1, 3),
        (2, 3),
        (3, 3),
    ]


def test_ps_lists_what_ended_only_when_asked(shell: Shell) -> None:
    assert shell.type("run", "Quick", "look").returncode == 0

    nothing = shell.type("ps")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert nothing.stderr == "note: nothing is running; `outrider ps --all` lists what ended\n"
    heading, row = shell.type("ps", "--all").stdout.splitlines()
    assert heading.split() == ["id", "agent", "doing", "age", "executions", "tokens", "cost", "task"]
    assert row.split()[0::2][:2] == ["●", "Quick"]
    assert shell.json("show", row.split()[1])["agent"] == "Quick"
    assert len(row.split()[1]) == 6


def test_sql_answers_as_a_table_or_as_an_array_of_objects(shell: Shell) -> None:
    assert shell.type("run", "Quick", "look").returncode == 0
    query = "select agent, status, turns, stage from executions"

    assert shell.type("sql", query).stdout == "agent  status     turns  stage\nQuick  completed      1  -\n"
    assert shell.json("sql", query) == [{"agent": "Quick", "status": "completed", "turns": 1, "stage": None}]


def test_sql_without_a_query_lists_tables_views_and_examples_that_work(shell: Shell) -> None:
    assert shell.type("run", "Quick", "look").returncode == 0

    listed = shell.type("sql").stdout
    assert "executions (table)\n    id, parent_execution_id, root_execution_id" in listed
    assert "execution_tree (view)\n" in listed
    examples = [line.split('"')[1] for line in listed.splitlines() if line.startswith('    outrider sql "')]
    assert len(examples) == 4
    for example in examples:
        assert shell.type("sql", example).returncode == 0, example


def test_agents_tells_who_can_be_run_and_dispatched(shell: Shell) -> None:
    told = shell.json("agents")
    lead = next(agent for agent in told["agents"] if agent["name"] == "Lead")
    assert (lead["sub_agents"], lead["strategy"], lead["limits"]["max_concurrent_agents"]) == (["Waiter"], "loop", 1)
    assert lead["capabilities"] == ["lead", "sum up"]
    assert told["chains"][0]["stages"] == [{"name": "only", "agents": ["Quick"]}]
    text = shell.type("agents").stdout
    assert "Lead (loop, rehearsed)\n    sends somebody\n    can         lead, sum up\n    servers     none\n" in text
    assert "    servers     none\n    dispatches  Waiter\n" in text
    assert "look (chain)\n    stages      only (Quick)\n    alerts      DiskFull\n" in text


def test_a_good_configuration_is_one_line(shell: Shell) -> None:
    done = shell.type("config", "check")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"ok: {shell.folder}/config.yaml: 6 agents, 1 chain, 2 servers, 1 model\n"
    assert shell.json("config", "check")["ok"] is True


def test_a_bad_configuration_is_told_to_programs_too(shell: Shell) -> None:
    shell.folder.joinpath("bad.yaml").write_text("agents: {A: {colour: red}}\n", encoding="utf-8")

    done = shell.type("config", "check", "bad.yaml", "--json")

    assert done.returncode == 2
    assert json.loads(done.stdout)["problems"][0]["line"] == 1


def test_what_holds_is_shown_with_where_it_came_from(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(shell.folder / "config.yaml")

    assert entry.main(["config", "show", file]) == 0
    assert "      max_concurrent_agents: 1  # config.yaml:8\n" in capsys.readouterr().out
    assert entry.main(["config", "show", file, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"path": "defaults.limits.timeout", "value": 60.0, "origin": "config.yaml:1"} in told["values"]
    assert told["chain_limits"]["look.only.Quick"]["timeout"] == {"value": 60.0, "origin": "config.yaml:1"}


def test_the_schema_accepts_the_configuration(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["config", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)

    jsonschema.validate(yaml.safe_load(shell.folder.joinpath("config.yaml").read_text(encoding="utf-8")), schema)


def test_the_help_lists_every_command_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in ("demo", "run", "cancel", "ps", "show", "sql", "agents", "config", "doctor", "completion"):
        assert f" {command} " in shown
        assert entry.main([command, "--help"]) == 0
    assert "For example: outrider run" in shown
    assert entry.main([]) == 0


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    assert entry.main(["--version"]) == 0
    assert capsys.readouterr().out == f"outrider {version('outrider')}\n"


def test_agents_tells_what_each_takes_which_commands_it_has_and_where_its_files_are(shell: Shell) -> None:
    shell.folder.joinpath("more.yaml").write_text(
        """
models: {m: {model: claude-sonnet-5}}
agents:
  Clerk: {description: keeps notes, workspaces: [{name: notes, path: .}]}
  Front: {strategy: route, sub_agents: [Clerk], route: {commands: {note: {arguments: [{name: text}], agents: [Clerk]}}}}
  Writer: {strategy: iterate, input_schema: {type: object, properties: {topic: {type: string}}}}
""",
        encoding="utf-8",
    )
    text = shell.type("agents", "--config", str(shell.folder / "more.yaml")).stdout
    assert "    files       notes\n" in text
    assert "    commands    /note TEXT\n" in text
    assert "    takes       topic\n" in text
