"""The standard return: what is read from it, what is said of one that is wrong, and the answer that is made of it."""

import re
from pathlib import Path
from typing import Any

import pytest

from runner.errors import SessionMismatchError, ValidationError
from runner.origin import new_session
from runner.result import Code, Outcome, Problem, Result, code_of
from runner.returns import ARTIFACT_TYPES, read_return
from runner.strategies.route.commands.report import answer_text, processed
from tests.support.requirement import requirement

SESSION = "sess_1766743200_abc123"


def returned(**changes: Any) -> dict[str, Any]:
    """A return that is right, but for the changes; None takes a field out."""
    value = {
        "status": "completed",
        "summary": "Three tools were compared.",
        "artifacts": [{"type": "research", "path": "specs/195/report.md"}],
        "metadata": {"session_id": SESSION},
    }
    return {name: each for name, each in (value | changes).items() if each is not None}


def trouble(kind: str = "execution", **more: Any) -> dict[str, Any]:
    return {"type": kind, "message": "phase 2 did not build", **more}


@requirement("S1-ST10-1", "S1-T5")
@pytest.mark.parametrize("field", ["status", "summary", "artifacts", "metadata"])
def test_a_return_without_a_required_field_is_refused_with_its_name(field: str) -> None:
    with pytest.raises(ValidationError, match=rf"^Missing required field: {field}$"):
        read_return(returned(**{field: None}), SESSION)


def test_the_first_field_that_is_missing_is_named() -> None:
    with pytest.raises(ValidationError, match="Missing required field: summary"):
        read_return({"status": "completed"}, SESSION)
    with pytest.raises(ValidationError, match="must be a JSON object"):
        read_return("done", SESSION)


@requirement("S1-ST10-2", "S1-ST10-3", "S1-ST10-4", "S1-ST10-5", "S1-ST9-1", "S1-RF-4")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"status": "done"}, "Invalid status: done"),
        ({"status": ["completed"]}, "Invalid status: "),
        ({"metadata": {}}, "Missing session_id in metadata"),
        ({"metadata": "sess"}, "Missing session_id in metadata"),
        ({"metadata": {"session_id": "sess_1_zzzzzz"}}, f"Session ID mismatch: expected {SESSION}, got sess_1_zzzzzz"),
        ({"summary": ""}, "Summary cannot be empty"),
        ({"summary": "x" * 501}, "Summary too long (max 500 chars)"),
        ({"artifacts": [{"type": "plan"}]}, "Invalid artifact format"),
        ({"artifacts": [{"path": "a.md"}]}, "Invalid artifact format"),
        ({"artifacts": ["a.md"]}, "Invalid artifact format"),
        ({"artifacts": "a.md"}, "Invalid artifact format"),
        ({"errors": ["broken"]}, "Invalid error format"),
        ({"errors": [{"type": "timeout"}]}, "Invalid error format"),
        ({"next_steps": 7}, "Invalid next_steps format"),
        ({"errors": [trouble()]}, "Errors must be empty for status: completed"),
        ({"status": "failed"}, "Errors cannot be empty for status: failed"),
        ({"status": "partial", "errors": []}, "Errors cannot be empty for status: partial"),
        ({"status": "blocked"}, "Errors cannot be empty for status: blocked"),
    ],
)
def test_a_return_with_a_field_that_is_wrong_is_refused_in_words(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        read_return(returned(**changes), SESSION)
    assert str(refused.value).startswith(said)
    assert isinstance(refused.value, SessionMismatchError) == ("mismatch" in said)


@requirement("S1-ST10-4", "S1-RF-6")
def test_a_return_that_is_right_is_a_result_with_everything_the_agent_said() -> None:
    whole = returned(summary="x" * 500, task_number=196, phases_completed=[1, 2], next_steps="plan it")
    result = read_return(whole, SESSION)
    assert (result.outcome, len(result.summary), result.next_steps) == (Outcome.COMPLETED, 500, ("plan it",))
    assert result.output == whole
    assert read_return(result.output, SESSION) == result  # reading it once more changes nothing
    assert processed(result)["task_number"] == 196
    assert processed(result)["phases_completed"] == [1, 2]
    broken = read_return(returned(status="partial", errors=[trouble("timeout", recoverable=False)]), SESSION)
    assert (broken.outcome, broken.reason, broken.errors[0].recoverable) == (Outcome.PARTIAL, "timeout", False)


@requirement("S1-RF-5")
def test_artifacts_have_a_known_type_and_lie_inside_the_folder(tmp_path: Path) -> None:
    inside, outside = tmp_path / "project", tmp_path / "outside.md"
    (inside / "specs").mkdir(parents=True)
    outside.write_text("secret", encoding="utf-8")
    (inside / "specs" / "report.md").write_text("found", encoding="utf-8")
    (inside / "link.md").symlink_to(outside)

    def read(path: str, kind: str = "research") -> Result:
        return read_return(returned(artifacts=[{"type": kind, "path": path}]), SESSION, {"docs": inside})

    for kind in ARTIFACT_TYPES:
        assert read("specs/report.md", kind).artifacts[0]["type"] == kind
    assert read("docs/specs/report.md").artifacts[0]["path"] == "docs/specs/report.md"
    with pytest.raises(ValidationError, match="Invalid artifact type: virus"):
        read("specs/report.md", "virus")
    for path in ("../outside.md", "specs/../../outside.md", str(outside), "C:\\outside.md", "..\\outside.md", "a\0b"):
        with pytest.raises(ValidationError, match="must be relative and stay inside"):
            read(path)
    for path in ("link.md", "docs/link.md", "specs/none.md", "other/specs/report.md"):
        with pytest.raises(ValidationError, match=f"Artifact not found: {path}"):
            read(path)


@requirement("S1-ST11-1", "S1-ST11-2", "S1-ST11-3", "S1-ST11-4", "S1-DG-1")
def test_each_outcome_is_processed_into_its_own_shape() -> None:
    artifacts = [{"type": "research", "path": "specs/195/report.md"}]
    done = processed(read_return(returned(), SESSION))
    assert done == {"success": True, "message": "Three tools were compared.", "artifacts": artifacts}

    def told(status: str, **more: Any) -> dict[str, Any]:
        return processed(read_return(returned(status=status, errors=[trouble(**more)], next_steps=["resume it"]), SESSION))

    partial = told("partial")
    assert set(partial) == {"success", "partial", "message", "artifacts", "errors", "recovery"}
    assert (partial["success"], partial["partial"], partial["recovery"]) == (False, True, ["resume it"])
    failed = told("failed")
    assert set(failed) == {"success", "message", "errors", "recovery"}
    assert (failed["errors"][0]["code"], failed["recovery"]) == ("EXECUTION_FAILED", ["resume it"])
    blocked = told("blocked")
    assert set(blocked) == {"success", "blocked", "message", "errors", "action_required"}

    def recovered(*recoverable: bool) -> str:
        problems = tuple(Problem("execution", "broke", recoverable=each) for each in recoverable)
        return str(processed(Result(Outcome.FAILED, "broke", errors=problems))["recovery"][0])

    assert "try again" in recovered(True, True).lower()
    assert "manual intervention" in recovered(True, False).lower()


@requirement("S1-ST13-1", "S1-ST13-2")
def test_the_answer_to_a_command_is_written_for_people() -> None:
    found = Result(
        Outcome.COMPLETED,
        "Research completed. REST comes first.",
        artifacts=(
            {"type": "research", "title": "Research report", "path": "specs/195/report.md"},
            {"type": "summary", "path": "specs/195/summary.md"},
        ),
    )
    assert answer_text("/research 195", found, ["Task 195 is researched."]) == (
        "Command: research\nStatus: Completed\n\nResearch completed. REST comes first.\n\n"
        "Artifacts:\n- Research report: specs/195/report.md\n- Summary: specs/195/summary.md\n\nTask 195 is researched."
    )
    cut = Result(
        Outcome.PARTIAL,
        "Phase 1 is done; phases 2 and 3 were not begun.",
        reason="timeout",
        artifacts=({"type": "implementation", "path": "a.lean"},),
        errors=(Problem("timeout", "its time ran out", context={"timeout": 7200.0}),),
    )
    assert answer_text("/implement 191", cut) == (
        "Command: implement\nStatus: Partial (timeout after 2 hours)\n\nPhase 1 is done; phases 2 and 3 were not begun.\n\n"
        "Artifacts:\n- Implementation: a.lean\n\nError: its time ran out (TIMEOUT)\n\nTo resume: run /implement 191"
    )
    missing = Problem("tool_unavailable", "lean-lsp is not there", recommendation="install it with `uvx lean-lsp-mcp`")
    assert answer_text("/implement 191", Result(Outcome.FAILED, "The proof was not begun.", errors=(missing,))) == (
        "Command: implement\nStatus: Failed\n\nThe proof was not begun.\n\n"
        "Error: lean-lsp is not there (TOOL_UNAVAILABLE)\n\n"
        "Recommendation: install it with `uvx lean-lsp-mcp`\nThen retry: /implement 191"
    )
    twice = (Problem("oddity", "one", recoverable=False), Problem("execution", "two"))
    assert answer_text("review", Result(Outcome.BLOCKED, "Stuck.", errors=twice, next_steps=("ask somebody",))) == (
        "Command: review\nStatus: Blocked\n\nStuck.\n\nErrors:\n- one (UNKNOWN_ERROR)\n- two (EXECUTION_FAILED)\n\n"
        "Next step: ask somebody\nManual intervention is needed"
    )


@requirement("S1-RF-3")
def test_every_problem_has_a_code_and_an_unknown_type_has_the_unknown_one() -> None:
    named = {"TIMEOUT", "VALIDATION_FAILED", "TOOL_UNAVAILABLE", "BUILD_ERROR", "FILE_NOT_FOUND", "CYCLE_DETECTED"}
    assert named | {"MAX_DEPTH_EXCEEDED", "UNKNOWN_ERROR"} <= set(Code)
    types = ("timeout", "validation_failed", "tool_unavailable", "delegation_cycle", "max_depth_exceeded", "no such type")
    problems = tuple(Problem(each, "broke") for each in types)
    assert [code_of(each) for each in (*problems, Problem("execution", "broke", "LEAN_7"))] == [
        *("TIMEOUT", "VALIDATION_FAILED", "TOOL_UNAVAILABLE", "CYCLE_DETECTED", "MAX_DEPTH_EXCEEDED", "UNKNOWN_ERROR"),
        "LEAN_7",
    ]


@requirement("S1-HF-1")
def test_session_ids_have_their_shape_and_never_repeat() -> None:
    made = [new_session() for _ in range(10_000)]
    assert all(re.fullmatch(r"sess_\d{10,}_[a-z0-9]{6}", each) for each in made)
    assert len({each[-6:] for each in made}) == len(made)
