"""Commands: messages that begin with `/` go by the table of their route, and no model is asked who handles them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from pydantic_core import from_json

from runner.errors import Refusal
from runner.llm.protocol import Request
from runner.service.order import Order
from tests.runner.strategies.route.commanded import crew, given, item, workers
from tests.support.models import Turn, call, fail, gate, hang, say
from tests.support.requirement import requirement
from tests.support.service import bench

EVERYBODY = {"*": lambda request: say(f"done by {request.agent}")}


def found(path: str) -> Turn:
    """An agent's report with an artifact."""
    return call("finish", status="completed", summary="found", artifacts=[{"type": "file", "path": path}])


@requirement("S1-T2", "S1-ST3-1", "S1-ST3-2", "S1-ST4-2", "S1-ST4-3", "S1-ST4-4", "S1-ST4-6")
async def test_who_works_depends_on_command_language_and_plan(tmp_path: Path) -> None:
    table = {
        "/research 195": ["lean-research-agent"],
        "/research 192": ["lean-research-agent"],  # its plan says so
        "/research 196": ["researcher"],
        "/research 191": ["researcher"],
        "/research 193": ["researcher"],
        "/plan 195": ["planner"],
        "/revise 191": ["planner"],
        "/review": ["reviewer"],
        "/implement 194": ["lean-implementation-agent"],
        "/implement 191": ["task-executor", "committer"],
        "/implement 195": ["lean-implementation-agent"],
        "/implement 193": ["implementer"],
        "/errors": ["error-diagnostics-agent", "planner"],
    }
    modes = {"/implement 195": "simple", "/revise 191": "revision"}
    async with bench(tmp_path, crew(tmp_path), EVERYBODY) as service:
        for line, agents in table.items():
            service.model.requests.clear()
            ended = await service.run("orchestrator", line)
            assert ended.status == "completed", line
            assert [request.agent for request in service.model.requests] == agents, line  # and nobody else was asked
            rows = service.sql("select agent, input from executions where parent_execution_id = ? order by id", ended.id)
            assert [row["agent"] for row in rows] == agents, line
            assert from_json(rows[0]["input"]).get("mode") == modes.get(line)
            told = service.model.requests[-1].messages[0].text
            assert ("done by error-diagnostics-agent" in told) is (line == "/errors")
            assert ("phase 1, phase 2" in told) is (
                line in ("/revise 191", "/implement 191", "/implement 194", "/research 191")
            )


@requirement("S1-ST4-7", "S1-ST7-1", "S1-ST1-2", "S1-HF-2")
async def test_an_agent_is_told_its_caller_depth_and_timeout_while_its_caller_is_free(tmp_path: Path) -> None:
    async with bench(tmp_path, crew(tmp_path), {"*": [hang()]}) as service:
        order = Order("orchestrator", "/research 195 only REST", session="sess_1_abcdef")
        with anyio.fail_after(10):
            started = await service.dispatcher.start(order)  # and goes on, whoever works now
            request = await service.model.started("lean-research-agent")
        assert request.messages[0].text.startswith("Task Input: 195 only REST\n")
        assert '"focus": "only REST"' in request.messages[0].text
        assert given(service, "lean-research-agent")["delegation"] == {
            "command": "research",
            "session_id": "sess_1_abcdef",
            "delegation_depth": 1,
            "delegation_path": ["orchestrator", "research", "lean-research-agent"],
            "timeout": 3600.0,
            "caller": "orchestrator",
            "task_context": {"task_number": 195, "language": "lean", "complexity": "simple"},
        }
        rows = service.sql("select depth, path, timeout_seconds from executions order by id")
        assert [tuple(row.values())[:2] for row in rows] == [(0, "orchestrator"), (1, "orchestrator/lean-research-agent")]
        assert rows[1]["timeout_seconds"] == 3600 < rows[0]["timeout_seconds"]  # time to say what came of it
        await service.dispatcher.cancel(started.id, "Ada", "enough")
        await service.ended(started.id)


@requirement("S1-HF-2", "X-02")
async def test_a_command_has_the_time_its_name_has_unless_the_call_gives_another(tmp_path: Path) -> None:
    times: list[tuple[str, float | None, float]] = [
        ("/task x", None, 300),
        ("/research 195", None, 3600),
        ("/plan 195", None, 1800),
        ("/implement 193", None, 7200),
        ("/implement 193,195", None, 7200),
        ("/revise 195", None, 1800),
        ("/review", None, 3600),
        ("/errors", None, 1800),
        ("/deploy test", None, 3600),
        ("/research 195", 10_060.0, 10_000),
        ("/research 195", 100.0, 80),
    ]
    rows = "select timeout_seconds from executions where root_execution_id = ? order by id"
    async with bench(tmp_path, crew(tmp_path), EVERYBODY) as service:
        for line, asked, seconds in times:
            ended = await service.run("orchestrator", line, timeout=asked)
            [root, child, *_] = [row["timeout_seconds"] for row in service.sql(rows, ended.id)]
            assert child == (seconds if asked is None else pytest.approx(seconds, abs=1)), line
            count = len(line.split(","))
            assert root == (asked or seconds * count + 70), line  # the rest is for the answer


@requirement("S1-ST1-1", "S1-ST1-3")
async def test_a_call_that_is_written_wrong_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    research = "write `/research NUMBER [FOCUS]`"
    wrong = [
        ("/reserch 195", "there is no command `/reserch`", "did you mean `/research`? commands: `/task`,"),
        ("/", "there is no command `/`", "commands: `/task`, `/research`,"),
        (f"/{'a' * 500}", f"there is no command `/{'a' * 39}…`", "commands: `/task`, `/research`,"),
        ("/task ' '", "`/task`: TITLE is missing", "write `/task TITLE`"),
        ("/research", "`/research`: NUMBER is missing", research),
        ("/research lean", "`/research`: `lean` does not match NUMBER", research),
        ("/plan 195 196", "`/plan`: unexpected `196`", "write `/plan NUMBER`"),
        ("/todo all", "`/todo`: it takes no arguments", "write `/todo`"),
        ("/deploy mars", "`/deploy`: `mars` does not match test|live", "write `/deploy test|live`"),
        ("/implement 107-105", "`/implement`: the range `107-105` goes down", "write `/implement NUMBER`"),
        ("/implement 1-999999", "`/implement`: it takes at most 100 work items at once", "write"),
        ("/implement 999", "there is no work item 999", "see the board for existing work items"),
    ]
    async with bench(tmp_path, crew(tmp_path), {}) as service:
        for line, message, hint in wrong:
            with pytest.raises(Refusal) as refused:
                await service.dispatcher.start(Order("orchestrator", line))
            assert str(refused.value) == message
            assert refused.value.kind == ("unknown_command" if "no command" in message else "usage")
            assert refused.value.hint.startswith(hint)
        assert service.sql("select id from executions") == []


@requirement("S1-ST1-1", "S1-ST1-3")
async def test_a_wrong_call_from_inside_a_tree_fails_with_a_hint(tmp_path: Path) -> None:
    nested = "agent_chains: {line: {stages: [{name: one, agents: [orchestrator]}]}}"
    async with bench(tmp_path, crew(tmp_path, more=nested), {}) as service:
        ended = await service.run("line", "/research")
        assert ended.status == "failed"
        [row] = service.sql("select result from executions where agent = 'orchestrator'")
        [problem] = from_json(row["result"])["errors"]
        assert (problem["type"], problem["recommendation"]) == ("usage", "write `/research NUMBER [FOCUS]`")


@requirement("S1-ST4-5", "S1-ST1-3")
async def test_a_command_with_an_answer_has_no_agents(tmp_path: Path) -> None:
    items = "work_items: {items: {1: {title: '{{ items }} & more'}, 5: {title: sleep, status: blocked}}}\n"
    async with bench(tmp_path, crew(tmp_path, items), {}) as service:
        ended = await service.run("orchestrator", "/todo")
        assert ended.result is not None
        assert ended.result.text == "1 {{ items }} & more (not_started)\n5 sleep (blocked)"
        assert len(service.sql("select id from executions")) == 1


async def test_a_message_that_is_no_command_is_answered_in_words_where_no_other_agent_is_named(tmp_path: Path) -> None:
    async with bench(tmp_path, crew(tmp_path), {"Respondent": [say("Hello!")]}) as service:
        ended = await service.run("orchestrator", "hello, what can /todo do?")
        assert ended.result is not None
        assert ended.result.text == "Hello!"
        assert [request.agent for request in service.model.requests] == ["Respondent"]


@requirement("S1-ST13-3")
async def test_a_finished_command_updates_its_work_item_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "drafts").mkdir()
    (tmp_path / "drafts" / "195.md").write_text("three steps", encoding="utf-8")
    config = crew(tmp_path).replace("  planner: {}", "  planner: {workspaces: [{name: docs, path: drafts}]}")
    scripts = {
        "lean-research-agent": [found("reports/195.md")],
        "planner": [found("docs/195.md")],
        "lean-implementation-agent": [say("proved")],
    }
    async with bench(tmp_path, config, scripts) as service:
        ended = await service.run("orchestrator", "/research 195")
        assert ended.result is not None
        assert ended.result.text == (
            "Command: research\nStatus: Completed\n\nfound\n\nArtifacts:\n- Research: reports/195.md\n\n"
            "Task 195 marked [RESEARCHED] and linked to 1 artifact."
        )
        assert item(service, 195)["status"] == "researched"
        assert from_json(item(service, 195)["artifacts"]) == [{"type": "research", "path": "reports/195.md"}]
        await service.run("orchestrator", "/plan 195")
        assert (item(service, 195)["status"], item(service, 195)["plan"]) == ("planned", "docs/195.md")
        await service.run("orchestrator", "/implement 195")
        assert "three steps" in service.model.requests[-1].messages[0].text


@requirement("S1-T9")
async def test_an_agent_that_is_not_critical_may_fail(tmp_path: Path) -> None:
    scripts = {"task-executor": [say("built")], "committer": [fail("invalid", "no repository", recoverable=False)]}
    async with bench(tmp_path, crew(tmp_path), scripts) as service:
        ended = await service.run("orchestrator", "/implement 191")
        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.summary) == ("completed", "completed", "built")
        assert [problem.message for problem in ended.result.errors] == ["the model could not answer: no repository"]
        assert "no repository" in ended.result.text
        assert item(service, 191)["status"] == "completed"


@requirement("S1-T1", "S1-T11", "S1-ST4-1")
async def test_a_new_task_gets_the_next_number_and_no_model_is_asked(tmp_path: Path) -> None:
    async with bench(tmp_path, crew(tmp_path, items=""), {}) as service:
        ended = await service.run("orchestrator", '/task "Create test task"')
        assert ended.result is not None
        assert (ended.status, ended.result.outcome) == ("completed", "completed")
        assert ended.result.metadata["answer"]["task_number"] == 1  # the first there is
        assert ended.result.text == "Command: task\nStatus: Completed\n\nTask 1 was added: Create test task"
        assert workers(service) == [("1", "atomic-task-numberer")]
        assert item(service, 1)["title"] == "Create test task"

    gaps = "work_items: {items: {1: {title: one}, 5: {title: five}}}\n"
    (tmp_path / "gaps").mkdir()
    async with bench(tmp_path / "gaps", crew(tmp_path / "gaps", gaps), {}) as service, anyio.create_task_group() as group:
        for title in ("one more", "and another"):
            group.start_soon(service.run, "orchestrator", f"/task {title}")
        await service.until(lambda: len(service.sql("select number from work_items")) == 4)
        numbers = service.sql("select number from work_items order by number")
        assert [row["number"] for row in numbers] == [1, 5, 6, 7]


@requirement("S1-T10")
async def test_commands_in_parallel_do_not_get_into_each_other(tmp_path: Path) -> None:
    async with bench(tmp_path, crew(tmp_path), EVERYBODY) as service, anyio.create_task_group() as group:
        for line in ("/research 195", "/research 191", "/research 192", "/research 193"):
            group.start_soon(service.run, "orchestrator", line)
        await service.until(lambda: len(service.sql("select id from executions where finished_at is not null")) == 8)
        assert sorted(workers(service)) == [
            ("191/1", "researcher"),
            ("192/1", "lean-research-agent"),
            ("193/1", "researcher"),
            ("195/1", "lean-research-agent"),
        ]


@requirement("S1-DG-2")
async def test_a_batch_goes_on_after_a_failure_and_is_summed_up(tmp_path: Path) -> None:
    failure = fail("invalid", "no proof", recoverable=False)
    scripts = {"implementer": [say("done")], "lean-implementation-agent": [failure]}
    async with bench(tmp_path, crew(tmp_path), scripts) as service:
        ended = await service.run("orchestrator", "/implement 195, 193, 196-197")
        assert ended.result is not None
        assert (ended.status, ended.result.outcome) == ("completed", "partial")
        assert workers(service) == [
            ("195/1", "lean-implementation-agent"),
            ("193/1", "implementer"),
            ("196/1", "implementer"),
        ]
        assert ended.result.summary == "2 of 4 work items completed"
        assert ended.result.text.splitlines()[3:8] == [
            "2 of 4 work items completed:",
            "- 195: failed: the model could not answer: no proof",
            "- 193: completed: done",
            "- 196: completed: done",
            "- 197: failed: there is no work item 197",
        ]
        assert [problem.context["task_number"] for problem in ended.result.errors] == [195, 197]
        times = service.sql("select started_at, finished_at from executions where role = 'direct' order by id")
        assert all(after["started_at"] >= before["finished_at"] for before, after in pairwise(times))
        assert [item(service, number)["status"] for number in (193, 195, 196)] == ["completed", "not_started", "completed"]


FILES = """
context_files:
  common: [context/common.md]
  languages: {lean: [context/lean.md], markdown: [context/repo.md]}
  full: [context/all.md]
"""


@requirement("S1-CL-1", "S1-CL-2", "S1-CL-3", "S1-ST2-1")
async def test_how_complex_a_request_is_decides_which_files_are_shown(tmp_path: Path) -> None:
    names = {"common", "lean", "repo", "all"}
    wanted = {
        "/research 195": {"common"},
        "/research 195,193": {"common", "lean"},
        "/research 197": {"common", "repo"},
        "/research 191-195": names,
        "/research 198": names,
    }
    (tmp_path / "context").mkdir()
    for name in names:
        (tmp_path / "context" / f"{name}.md").write_text(f"this is {name}", encoding="utf-8")
    config = crew(tmp_path, more=FILES).replace(
        "    196: {title: Who knows}\n",
        "    196: {title: Who knows}\n    197: {title: Say, language: markdown, depends_on: [196]}\n"
        "    198: {title: Prove all, language: lean, complexity: complex}\n",
    )
    async with bench(tmp_path, config, EVERYBODY) as service:
        for line, shown in wanted.items():
            service.model.requests.clear()
            await service.run("orchestrator", line)
            assert {name for name in names if f"this is {name}" in service.model.requests[0].system} == shown, line


@requirement("S1-HF-2", "X-03")
async def test_a_command_whose_time_runs_out_says_how_to_go_on(tmp_path: Path) -> None:
    config = crew(tmp_path).replace("artifact: research\n", "artifact: research\n          timeout: 300ms\n")
    async with bench(tmp_path, config, {"*": lambda _: hang()}) as service:
        ended = await service.run("orchestrator", "/research 195")
        assert ended.result is not None
        assert (ended.status, ended.result.outcome) == ("completed", "partial")
        assert ended.result.errors[0].type == "timeout"
        assert ended.result.text.startswith("Command: research\nStatus: Partial (timeout after 0.3 seconds)\n")
        assert "To resume: run /research 195" in ended.result.text
        assert item(service, 195)["status"] == "not_started"
        [row] = service.sql("select * from delegations where task_number = 195")
        assert (row["command"], row["subagent"], row["status"]) == ("research", "lean-research-agent", "timed_out")


async def test_a_command_that_is_asked_to_conclude_begins_no_further_item(tmp_path: Path) -> None:
    asked = anyio.Event()
    scripts = {"implementer": [gate(asked, say("in short"))]}
    async with bench(tmp_path, crew(tmp_path), scripts) as service:
        started = await service.dispatcher.start(Order("orchestrator", "/implement 193,196"))
        with anyio.fail_after(10):
            await service.model.started("implementer")
        await service.dispatcher.ask_to_wrap_up(started.id)
        asked.set()
        ended = await service.ended(started.id)
        assert ended.result is not None
        assert ended.result.outcome == "partial"
        assert [seat for seat, _ in workers(service)] == ["193/1"]
        assert "- 196: failed: it was not started (asked)" in ended.result.text


async def test_an_agent_its_user_may_not_use_blocks_the_command(tmp_path: Path) -> None:
    config = crew(tmp_path).replace("  researcher: {}", "  researcher: {requires: {capabilities: [search]}}")
    async with bench(tmp_path, config + "users: {noa: {name: Noa}}\n", {}) as service:
        ended = await service.run("orchestrator", "/research 193", user="noa")
        assert ended.result is not None
        assert (ended.status, ended.result.outcome) == ("completed", "blocked")
        assert "needs the capability `search`" in ended.result.text
        assert len(service.sql("select id from executions")) == 1


async def test_an_agent_that_cannot_be_spawned_is_one_error_however_the_command_ends(tmp_path: Path) -> None:
    config = """
work_items: {items: {1: {title: a}, 2: {title: b}}}
agents:
  Lead: {sub_agents: [Front]}
  Front:
    description: carries out commands
    strategy: route
    sub_agents: []
    route:
      commands:
        ask: {arguments: [{name: number, kind: items}], agents: [Lead]}
        try: {agents: [{agents: [Helper, {agent: Lead, critical: false}]}]}
  Helper: {}
"""

    def given_commands(request: Request) -> Turn:
        sent = sum(message.role == "assistant" for message in request.messages)
        lines = ["/ask 1", "/ask 1-2", "/try"]
        return call("dispatch_agent", name="Front", task=lines[sent]) if sent < len(lines) else say("done")

    scripts = {"Lead": given_commands, "Helper": lambda _: say("helped")}
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Lead", "try all")
        rows = service.sql("select type, recurrence_count from error_records order by first_seen")
        assert [(row["type"], row["recurrence_count"]) for row in rows] == [("delegation_cycle", 4)]


async def test_the_arguments_of_a_command_are_what_its_agent_takes(tmp_path: Path) -> None:
    config = """
agents:
  Front:
    strategy: route
    sub_agents: []
    route:
      commands:
        write: {arguments: [{name: topic}], agents: [Writer]}
        say: {arguments: [{name: words}], agents: [Writer]}
  Writer:
    strategy: iterate
    input_schema:
      type: object
      properties: {topic: {type: string}, tone: {type: string, default: dry}}
      required: [topic]
      additionalProperties: false
    iterate: {objective: "Write about {{ topic }}, {{ tone }}"}
"""
    scripts = {"TaskPlanner": [say('{"finished": true}')], "Completer": [say("tides rise")]}
    async with bench(tmp_path, config, scripts) as service:
        written = await service.run("Front", "/write tides")
        assert written.result is not None
        assert "tides rise" in written.result.text
        assert "Write about tides, dry" in service.model.of("Completer")[0].messages[0].text
        refused = await service.run("Front", "/say hello")
        assert refused.result is not None
        assert (refused.status, refused.result.errors[0].code) == ("failed", "VALIDATION_FAILED")
        assert "'topic' is a required property" in refused.result.text
        assert len(service.model.requests) == 2
