"""The crew: its conversation as documented, its routing table, its answers, and what the system it follows says of itself.

The files are real, and what is written is read again; only the models' words are rehearsed, or a test's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import yaml
from pydantic_core import from_json

from registry import load
from runner.llm.protocol import Request
from runner.strategies.route.commands.task import RuleQuery, rule_for
from tests.examples.casting import Understudy, cast, crew, returns
from tests.examples.playing import Said, conversation, play
from tests.support.models import Turn, call, hang, say
from tests.support.requirement import requirement
from tests.support.service import Bench
from tests.support.shell import Shell
from tests.support.sources import ROOT

CREW = ROOT / "examples" / "crew"


def errors_of(said: Said) -> list[dict[str, Any]]:
    """The errors of an answer, for programs."""
    [row] = said.service.sql("select result from executions where id = ?", said.execution)
    found: list[dict[str, Any]] = from_json(row["result"])["errors"]
    return found


def item(service: Bench, number: int) -> dict[str, Any]:
    """A work item as it is stored."""
    [row] = service.sql("select * from work_items where board = 'crew' and number = ?", number)
    return row


@requirement("S1-T1", "S1-T2", "S1-ST4-5", "S1-ST4-6", "S1-ST13-1", "S1-ST13-2", "S1-ST13-3", "S1-DG-2")
async def test_the_crew_carries_out_its_commands_as_documented(tmp_path: Path) -> None:
    before = sorted(path for path in CREW.rglob("*") if "work" not in path.relative_to(CREW).parts)
    async with play("crew", tmp_path) as players:
        said = [await players.say(user, text) for user, text in conversation("crew")]

    board, task, research, plan, batch, revise, implement, lean, errors, board_after = said
    assert board.worked() == board_after.worked() == []
    assert "191 [NOT_STARTED] Fix the `delegation` hang (markdown), plan: plans/191.md" in board.answer.splitlines()
    check_a_task_gets_a_number(task)
    check_research_is_written_and_linked(research, tmp_path)
    assert plan.worked() == ["planner"]
    assert "By the research report: specs/195_leansearch/reports/research-001.md" in written(
        tmp_path, "specs/195_leansearch/plans/implementation-001.md"
    )
    check_a_batch_goes_on_after_a_failure(batch)
    assert revise.worked() == ["planner"]
    check_the_phases_of_the_newest_plan_are_carried_out(implement, tmp_path)
    check_a_failure_says_what_to_do(lean)
    check_errors_are_diagnosed_and_a_plan_follows(errors, tmp_path)
    assert "195 [PLANNED] " in board_after.answer
    assert "191 [COMPLETED] " in board_after.answer
    assert sorted(path for path in CREW.rglob("*") if "work" not in path.relative_to(CREW).parts) == before


def written(folder: Path, path: str) -> str:
    """What is in a file of the crew."""
    return (folder / "desk" / path).read_text(encoding="utf-8")


def check_a_task_gets_a_number(task: Said) -> None:
    """No model is asked, and the number is in the result."""
    assert task.worked() == ["atomic-task-numberer"]
    assert task.answer == "Command: task\nStatus: Completed\n\nTask 198 was added: Cache what `fetch` has read"
    [row] = task.service.sql("select outcome, result from executions where id = ?", task.execution)
    assert (row["outcome"], from_json(row["result"])["metadata"]["answer"]["task_number"]) == ("completed", 198)
    assert item(task.service, 198)["language"] == "python"


def check_research_is_written_and_linked(research: Said, folder: Path) -> None:
    """The first example of the answer format: what was found and made, and that the item is marked."""
    assert research.worked() == ["lean-research-agent"]
    assert research.answer == (
        "Command: research\nStatus: Completed\n\n"
        "Research completed on LeanSearch. 1 file mentions it: docs/search.md.\n\n"
        "Artifacts:\n"
        "- Research report: specs/195_leansearch/reports/research-001.md\n"
        "- Summary: specs/195_leansearch/summaries/research-summary.md\n\n"
        "Task 195 marked [RESEARCHED] and linked to 2 artifacts."
    )
    assert "`docs/search.md`, line 5: - LeanSearch takes a question" in written(
        folder, "specs/195_leansearch/reports/research-001.md"
    )
    linked = [each["type"] for each in from_json(item(research.service, 195)["artifacts"])]
    assert linked == ["research", "summary", "plan"]


def check_a_batch_goes_on_after_a_failure(batch: Said) -> None:
    """One after another, one of them in vain, and a summary of all."""
    assert batch.worked() == ["researcher", "researcher (failed)", "researcher"]
    assert batch.answer.splitlines()[1:7] == [
        "Status: Partial (file not found)",
        "",
        "2 of 3 work items completed:",
        "- 105: completed: Research completed on fetch. 2 files mention it: README.md, tools/fetch.py.",
        "- 106: failed: Nothing in the project mentions `legacy_index`, so there is nothing to work from.",
        "- 107: completed: Research completed on lake. 2 files mention it: README.md, docs/building.md.",
    ]
    assert [(each["code"], each["context"]["task_number"]) for each in errors_of(batch)] == [("FILE_NOT_FOUND", 106)]
    statuses = [item(batch.service, number)["status"] for number in (105, 106, 107)]
    assert statuses == ["researched", "not_started", "researched"]


def check_the_phases_of_the_newest_plan_are_carried_out(implement: Said, folder: Path) -> None:
    """Four, because the plan of the file was revised; two of them change the same file, one after the other."""
    assert implement.worked() == ["task-executor", "BuiltInPlanner", *["implementer"] * 4, "Composer"]
    assert implement.answer.splitlines()[3] == "4 of 4 phases are completed."
    assert implement.answer.endswith("Task 191 marked [COMPLETED] and linked to 3 artifacts.")
    assert item(implement.service, 191)["plan"] == "specs/191_delegation/plans/implementation-002.md"
    assert "Rehearsed change: Phase 1: Bound every wait" in written(folder, "changes/docs/delegation.md")
    readme = written(folder, "changes/README.md").splitlines()
    assert [line.partition(" change: ")[2][:7] for line in readme if "Rehearsed" in line] == ["Phase 3", "Phase 4"]


def check_a_failure_says_what_to_do(lean: Said) -> None:
    """The third example: the code of the error, a recommendation, and the command to try again."""
    assert lean.worked() == ["lean-implementation-agent (failed)"]
    assert lean.answer == (
        "Command: implement\nStatus: Failed\n\n"
        "The proof was not attempted, because lean-lsp-mcp is not available: "
        "without it nobody can tell whether Lean accepts a proof.\n\n"
        "Error: lean-lsp-mcp is not available (TOOL_UNAVAILABLE)\n\n"
        "Recommendation: Install lean-lsp-mcp with: uvx lean-lsp-mcp\n"
        "Then retry: /implement 192"
    )


def check_errors_are_diagnosed_and_a_plan_follows(errors: Said, folder: Path) -> None:
    """Each error stands in the log once, by whoever it arose in; the planner is shown the diagnosis."""
    assert errors.worked() == ["error-diagnostics-agent", "error-log", "planner"]
    assert "3 open errors have 2 causes." in errors.prompt("planner")
    kinds = errors.service.sql("select type, json_extract(context, '$.agent') as agent from errors order by first_seen")
    assert [tuple(each.values()) for each in kinds] == [
        ("file_not_found", "researcher"),
        ("tool_unavailable", "lean-implementation-agent"),
        ("tool_unavailable", "lean-implementation-agent"),
    ]
    plan = written(folder, "specs/errors/plans/fix-001.md")
    assert [line for line in plan.splitlines() if line.startswith("### ")] == [
        "### Phase 1: Install the server that could not be reached, or take it out of `mcp_servers`",
        "### Phase 2: Give the work item a title that names what it is about",
    ]


STANDARD = "context/common/"
LEAN, PAGES, ALL = "context/project/lean4/", "context/project/repo/", "context/project/overview.md"


@requirement("S1-T2", "S1-ST3-1", "S1-ST3-2", "S1-ST4-2", "S1-ST4-3", "S1-ST4-4", "S1-CL-1", "S1-CL-2", "S1-CL-3")
async def test_language_plan_and_complexity_decide_who_works_and_what_they_read(tmp_path: Path) -> None:
    table: list[tuple[str, str, str | None, set[str]]] = [
        ("/research 195", "lean-research-agent", None, {STANDARD}),
        ("/research 192", "lean-research-agent", None, {STANDARD}),  # its plan says that it is about Lean
        ("/research 191", "researcher", None, {STANDARD}),
        ("/research 105", "researcher", None, {STANDARD}),
        ("/research 107", "researcher", None, {STANDARD}),
        ("/research 196", "lean-research-agent", None, {STANDARD, LEAN}),  # it waits for others
        ("/research 197", "researcher", None, {STANDARD, LEAN, PAGES, ALL}),  # it says that it is complex
        ("/research 191,107", "researcher", None, {STANDARD, PAGES}),  # of two
        ("/plan 195", "planner", None, {STANDARD}),
        ("/plan 105", "planner", None, {STANDARD}),
        ("/implement 192", "lean-implementation-agent", None, {STANDARD}),
        ("/implement 191", "BuiltInPlanner", None, {STANDARD}),  # whom the task-executor asks first
        ("/implement 195", "lean-implementation-agent", "simple", {STANDARD}),
        ("/implement 105", "implementer", None, {STANDARD}),
        ("/implement 107", "implementer", None, {STANDARD}),
        ("/revise 191 it is too long", "planner", "revision", {STANDARD}),
        ("/review", "reviewer", None, {STANDARD}),
        ("/errors", "error-diagnostics-agent", None, {STANDARD}),
    ]
    everybody: dict[str, Understudy] = {
        "*": returns,
        "BuiltInPlanner": lambda _: say('{"steps": []}'),
        "Composer": lambda _: say("done"),
    }
    async with cast(tmp_path, everybody) as (service, models):
        for line, agent, mode, shown in table:
            models.requests.clear()
            ended = await service.run("orchestrator", line)
            first = models.requests[0]
            assert first.agent == agent, line
            assert {each for each in (STANDARD, LEAN, PAGES, ALL) if each in first.system} == shown, line
            [child, *_] = service.sql("select input from executions where parent_execution_id = ? order by id", ended.id)
            assert from_json(child["input"]).get("mode") == mode, line
            told = first.messages[0].text
            assert f"**Task Input:** {line.partition(' ')[2].partition(',')[0]}\n" in told, line
            assert ("Bound every wait" in told) is ("191" in line), line  # the plan there is


@requirement("S1-T3", "S1-ST5-1", "S1-ST5-3", "S1-ER-1")
async def test_an_agent_that_is_at_work_above_is_not_sent_for_again(tmp_path: Path) -> None:
    def sends_for(name: str) -> Any:
        def turn(request: Request) -> Turn:
            if len(request.messages) == 1:
                return call("dispatch_agent", name=name, task="look at it")
            return returns(request)

        return turn

    sub_agents = {
        "  planner:\n": "  planner:\n    sub_agents: [researcher]\n",
        "  researcher:\n": "  researcher:\n    sub_agents: [planner]\n",
    }
    understudies = {"planner": sends_for("researcher"), "researcher": sends_for("planner")}
    async with cast(tmp_path, understudies, sub_agents) as (service, _):
        await service.run("orchestrator", "/plan 105")
        agents = [row["agent"] for row in service.sql("select agent from executions order by id")]

    [error] = service.sql("select type, severity, context from errors")
    assert agents == ["orchestrator", "planner", "researcher"]  # and no second planner
    assert (error["type"], error["severity"]) == ("delegation_cycle", "high")
    context = from_json(error["context"])
    assert (context["delegation_path"], context["target"]) == (["orchestrator", "plan", "planner", "researcher"], "planner")


@requirement("S1-T4", "S1-T7", "S1-ER-3", "S1-ST13-2", "X-36")
async def test_a_plan_whose_time_runs_out_is_partial_and_goes_on_with_its_next_phase(tmp_path: Path) -> None:
    """The second example of the answer format: what there is, and how to resume."""
    stalled = True

    def stalls(request: Request) -> Turn | None:
        return hang() if stalled and request.messages[0].text.startswith("Phase 2") else None

    two_seconds = {"{url: command/implement.md}": "{url: command/implement.md}\n          timeout: 2s"}
    async with cast(tmp_path, {"implementer": stalls}, two_seconds) as (service, models):
        late = await service.run("orchestrator", "/implement 191")
        stalled = False
        models.requests.clear()
        done = await service.run("orchestrator", "/implement 191")
        phases = service.sql("select step_id, status from executions where role = 'step' order by id")

    assert late.result is not None
    assert done.result is not None
    assert (late.result.outcome, late.result.errors[0].type) == ("partial", "timeout")
    assert "implementer" in models.cancelled
    assert late.result.text == (
        "Command: implement\nStatus: Partial (timeout after 2 seconds)\n\n"
        "1 of 3 phases are completed.\n\n"
        "Artifacts:\n- Implementation: changes/docs/delegation.md\n\n"
        "Errors:\n"
        "- the time of the plan ran out before `phase_2`, `phase_3` (TIMEOUT)\n"
        "- step `phase_2` (implementer): it timed out (TIMEOUT)\n\n"
        "Recommendation: raise its timeout\n"
        "Next step: resume it, or repeat the command, to continue from the results so far\n"
        "To resume: run /implement 191\n\n"
        "Task 191 linked to 1 artifact."
    )
    [error] = service.sql("select type, severity from errors")
    assert (error["type"], error["severity"]) == ("timeout", "medium")
    assert done.result.text.endswith("Task 191 marked [COMPLETED] and linked to 3 artifacts.")
    assert not [each for each in models.requests if each.messages[0].text.startswith("Phase 1")]
    assert [tuple(each.values()) for each in phases] == [
        ("phase_1", "completed"),
        ("phase_2", "timed_out"),
        ("phase_3", "skipped"),
        ("phase_2", "completed"),
        ("phase_3", "completed"),
    ]


@requirement("S1-T5", "S1-ST10-1", "S1-ST10-6", "S1-ER-4")
async def test_a_return_without_its_fields_fails_the_command_and_is_shown(tmp_path: Path) -> None:
    malformed = {"lean-research-agent": lambda _: say('{"status": "completed"}')}
    async with cast(tmp_path, malformed) as (service, models):
        ended = await service.run("orchestrator", "/research 195")
        assert item(service, 195)["status"] == "not_started"

    assert ended.result is not None
    assert ended.status == "failed"
    assert ended.result.text.startswith(
        "Command: research\nStatus: Failed\n\n"
        "Return validation failed: Missing required field: summary\n\n"
        "Error: Return validation failed: Missing required field: summary (VALIDATION_FAILED)\n\n"
        "Recommendation: fix the sub-agent"
    )
    assert len(models.requests) == 2  # it was asked once more
    [error] = service.sql("select type, severity, context from errors")
    assert (error["type"], error["severity"]) == ("validation_failed", "high")
    assert from_json(error["context"])["original"] == '{"status": "completed"}'


LEAN_SERVER = """#!{python}
import sys
sys.path.insert(0, {root!r})
from examples.desk.serving import READS, Desk
lean = Desk("lean", "Asks Lean.")

@lean.tool(READS)
def lean_diagnostic_messages(file_path: str) -> dict[str, object]:
    \"\"\"What Lean says of a file.\"\"\"
    return {{"messages": ["declaration uses `sorry`"], "file": file_path}}

lean.serve()
"""


async def test_with_the_server_of_lean_a_proof_is_looked_at(tmp_path: Path) -> None:
    server = tmp_path / "lean-lsp-mcp"
    server.write_text(LEAN_SERVER.format(python=sys.executable, root=str(ROOT)), encoding="utf-8")
    server.chmod(0o755)
    async with cast(tmp_path, {}, {"${LEAN_LSP:-lean-lsp-mcp}": str(server)}) as (service, _):
        ended = await service.run("orchestrator", "/implement 192")
        assert item(service, 192)["status"] == "completed"

    assert ended.result is not None
    assert "Lean has looked at `Modal/Basic.lean`" in ended.result.summary
    assert "declaration uses `sorry`" in ended.result.summary
    assert "- Implementation: changes/Modal/Basic.lean" in ended.result.text


def test_a_command_that_fails_is_answered_in_a_shell_and_the_error_is_listed_once(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"CREW_HOME": str(tmp_path / "work"), "LEAN_LSP": "no-such-lean-lsp"})
    shell.environ["OUTRIDER_DATABASE_URL"] = str(shell.database)

    told = shell.type("--config", str(CREW / "config.yaml"), "chat", "--user", "sam", "/research 106")
    listed = shell.type("errors")
    registry = shell.type("ps", "--registry")

    assert told.returncode == 1
    assert "Error: no file of `project` mentions `legacy_index` (FILE_NOT_FOUND)" in told.stdout
    assert listed.stdout.count("legacy_index") == 1
    assert "orchestrator → research → researcher" in registry.stdout


async def test_a_specialist_is_added_as_its_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "crew.md").read_text(encoding="utf-8")
    added = yaml.safe_load(page.rpartition("```yaml")[2].partition("```")[0])["agents"]
    file = crew(tmp_path).source
    written = yaml.safe_load(file.read_text(encoding="utf-8"))
    rules = added.pop("orchestrator")["route"]["commands"]["research"]["agents"]
    written["agents"]["orchestrator"]["route"]["commands"]["research"]["agents"] = rules
    written["agents"] |= added
    file.write_text(yaml.safe_dump(written), encoding="utf-8")

    research = load(file, {}).agent("orchestrator").route.commands["research"]

    found = [
        research.rules[rule_for(research, RuleQuery(each, False, "simple")) or 0] for each in ("lean", "python", "markdown")
    ]
    assert [rule.phases[0].agent for rule in found] == ["lean-research-agent", "python-research-agent", "researcher"]


@requirement("S1-T1", "S1-T10")
async def test_tasks_that_are_added_at_once_get_numbers_of_their_own(tmp_path: Path) -> None:
    async with cast(tmp_path, {}) as (service, models):
        async with anyio.create_task_group() as group:
            for line in ('/task "Create test task"', "/task lean Prove `box_id`", "/research 195", "/research 191"):
                group.start_soon(service.run, "orchestrator", line)
        added = service.sql("select number, language from work_items where number > 197 order by number")
        assert sorted(row["number"] for row in added) == [198, 199]
        assert {row["language"] for row in added} == {None, "lean"}
        assert sorted(models.asked()) == ["lean-research-agent", "researcher"]
