"""Plans as pure functions: whatever a planner writes is read, checked and ordered, and a course keeps to its rules."""

import json
from dataclasses import asdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from db.status import TRANSITIONS, ExecutionStatus
from registry import PlanSpec
from runner.result import Outcome, Problem, Result
from runner.strategies.compose import StepResult, StepState, digest_of
from runner.strategies.plan.check import MOST_CUT, Bounds, Linted, lint, without
from runner.strategies.plan.parse import NotAPlan, PlanDraft, PlannedStep, read_plan
from runner.strategies.plan.progress import Version
from runner.strategies.plan.schedule import Schedule, Trigger, may_replan, trigger_of
from tests.support.requirement import requirement

TEXT = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=12)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.just(10**400) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
IDS = st.sampled_from(["a", "b", "c", "a_2", "a_v2", "step 1", "composer", "plan.1", 1, "", None]) | ANYTHING
STEP = st.fixed_dictionaries(
    {},
    optional={
        "id": IDS,
        "agent": st.sampled_from(["A", "b", "nobody we know"]) | ANYTHING,
        "task": st.sampled_from(["x", "y"]) | ANYTHING,
        "dependsOn": st.lists(IDS, max_size=3) | IDS,
        **dict.fromkeys(("maxRetries", "timeout", "requiresConfirmation", "status", "executionPayload"), ANYTHING),
    },
)
ANSWER = (
    st.fixed_dictionaries(
        {"steps": st.lists(STEP, max_size=14)},
        optional=dict.fromkeys(("analysis", "resolvedValues", "responseHint"), ANYTHING),
    )
    | st.lists(STEP, max_size=4)
    | ANYTHING
)
AROUND = st.sampled_from(["{}", "```json\n{}\n```", "Here it is: {} as wanted", "[[{{ {}"])
TAKEN = st.sets(st.sampled_from(["a", "b", "c", "a_2"]))


def written(answer: Any, around: str) -> PlanDraft | None:
    """What is read from an answer, if there is a plan in it."""
    try:
        return read_plan(around.replace("{}", json.dumps(answer), 1))
    except NotAPlan:
        return None


@requirement("S0-PL-8", "S0-PL-9")
@given(ANSWER, AROUND, TAKEN, st.integers(0, 10), st.integers(1, 3))
def test_whatever_a_planner_writes_becomes_steps_that_can_be_stored_and_carried_out_in_order(
    answer: Any, around: str, taken: set[str], room: int, version: int
) -> None:
    blueprint = written(answer, around)
    if blueprint is None:
        return
    bounds = Bounds(["A", "B"], room, done=taken - {"c"}, taken=taken, version=version)
    linted = lint(blueprint.steps, bounds)
    ids = [step.id for step in linted.steps]
    assert len(set(ids)) == len(ids) == min(room + MOST_CUT, len(blueprint.steps))
    assert [each for each in ids if each in linted.cut] == ids[room:]
    assert not linted.cut & linted.faults.keys()
    assert not taken & set(ids)
    assert not any("." in each for each in ids)
    begins = [step for step in linted.steps if step.id not in linted.cut]
    assert all(step.task and (step.agent in ("A", "B") or step.id in linted.faults) for step in begins)
    sound = [step for step in begins if step.id not in linted.faults]
    placed: set[str] = set(bounds.done)
    for step in sound:
        assert set(step.depends_on) <= placed | set(linted.faults)
        placed.add(step.id)
    _can_be_stored(blueprint, linted, version)
    again = lint(linted.steps, Bounds(["A", "B"], room, done=bounds.done, version=version))
    assert again.steps == linted.steps
    assert again.faults.keys() == linted.faults.keys()


def _can_be_stored(blueprint: PlanDraft, linted: Linted, number: int) -> None:
    told = (blueprint.analysis, blueprint.resolved, blueprint.response_hint)
    made = Version(number, linted.steps, linted.faults, *told, cut=linted.cut)
    row = asdict(made.row("execution", "request"))
    json.dumps(row, ensure_ascii=False).encode()
    stored = Version.of_row(row)
    assert (stored.steps, stored.faults, stored.cut) == (made.steps, made.faults, made.cut)


def test_an_answer_full_of_brackets_is_no_plan_and_costs_nothing() -> None:
    for answer in ("[" * 100_000, '{"a":' * 50_000, "[{" * 40_000 + "}", '{"steps": ' + "[" * 3_000):
        assert written(None, answer) is None


def test_a_name_that_cannot_be_an_id_is_replaced_wherever_it_stands() -> None:
    first, second = {"id": "step one", "agent": "A", "task": "x"}, {"id": "b", "task": "y", "dependsOn": ["step one"]}
    read = read_plan(json.dumps({"steps": [first, {**second, "agent": "B"}]}))
    assert [(step.id, step.depends_on) for step in read.steps] == [("action_1", ()), ("b", ("action_1",))]


@requirement("S0-RP-5")
@given(st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("xyz")), max_size=8), st.integers(0, 8))
def test_what_is_done_is_not_planned_again(pairs: list[tuple[str, str]], count: int) -> None:
    steps = [PlannedStep(f"s{number}", agent, task) for number, (agent, task) in enumerate(pairs)]
    chained = [PlannedStep(each.id, each.agent.lower(), each.task, (f"s{at - 1}",)) for at, each in enumerate(steps) if at]
    done = [PlannedStep(f"done_{each.id}", each.agent, each.task) for each in steps[:count]]
    left = without([*steps[:1], *chained], done)
    known = {(each.agent, each.task) for each in done}
    assert [(each.agent.upper(), each.task) for each in left] == [pair for pair in pairs if pair not in known]
    assert all(each in {step.id for step in (*left, *done)} for step in left for each in step.depends_on)
    assert without(left, done) == left


# -- the course --------------------------------------------------------------------------------------------------------

ENDS = {
    "completed": StepState("completed", Result(Outcome.COMPLETED, "done")),
    "partial": StepState("completed", Result(Outcome.PARTIAL, "half")),
    "failed": StepState("failed", Result(Outcome.FAILED, "no", errors=(Problem("model", "no"),))),
    "timed_out": StepState("timed_out"),
    "cancelled": StepState("cancelled"),
    "blocked itself": StepState("completed", Result(Outcome.BLOCKED, "I may not")),
}
GOOD = ("completed", "partial")


@st.composite
def courses(draw: st.DrawFn) -> Schedule:
    """Steps in an order that respects their dependencies, some of which cannot begin."""
    count, explicit = draw(st.integers(0, 6)), draw(st.booleans())
    steps = []
    for number in range(count):
        earlier = [f"s{each}" for each in range(number)]
        needs = draw(st.lists(st.sampled_from(earlier), unique=True)) if explicit and earlier else []
        steps.append(PlannedStep(f"s{number}", "A", "x", tuple(needs)))
    refused = draw(st.sets(st.sampled_from([step.id for step in steps]))) if steps else set()
    spec = PlanSpec(max_concurrent=draw(st.integers(1, 3)), on_step_failure=draw(st.sampled_from(["replan", "continue"])))
    return Schedule(spec, steps, {each: StepState("blocked") for each in refused})


@requirement("S0-PM-6", "S0-EX-5", "S0-FR-1")
@given(courses(), st.data())
def test_a_course_starts_only_what_may_start_and_every_step_comes_to_a_legal_end(
    course: Schedule, data: st.DataObject
) -> None:
    standings = dict(course.standings)

    def move(step: str, standing: StepState) -> None:
        before = ExecutionStatus(now.of(step).status)
        assert ExecutionStatus(standing.status) in TRANSITIONS[before]
        standings[step] = standing

    while True:
        now = Schedule(course.spec, course.steps, dict(standings))
        if not now.lost:
            for step in now.doomed():
                move(step, StepState("blocked"))
            now = Schedule(course.spec, course.steps, dict(standings))
            for each in now.startable():
                assert all(now.of(need).succeeded for need in each.depends_on)
                move(each.id, StepState("running"))
        now = Schedule(course.spec, course.steps, dict(standings))
        assert len(now.running) <= (course.spec.max_concurrent if course.explicit else 1)
        assert not now.lost or not now.startable()
        if not now.running:
            break
        move(data.draw(st.sampled_from(now.running)), ENDS[data.draw(st.sampled_from(sorted(ENDS)))])

    begun = [step.id for step in now.steps if now.of(step.id).status not in ("pending", "blocked")]
    if now.spec.on_step_failure == "continue":
        assert not now.left, "whatever could run has run"
    elif not now.explicit:
        ended = [now.of(step).succeeded for step in begun]
        assert ended in ([True] * len(begun), [True] * (len(begun) - 1) + [False]), "nothing runs after a failure"
        assert begun == [step.id for step in now.steps][: len(begun)]


@requirement("S0-RP-2", "S0-RP-6")
@given(
    st.sampled_from(sorted(ENDS)), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([None, "intent_clarified"])
)
def test_another_plan_is_called_for_by_a_wish_or_while_steps_are_left_by_a_failure_or_by_emptiness(
    end: str, wish: bool, empty: bool, steps_left: bool, reason: str | None
) -> None:
    result = ENDS[end].result or Result(Outcome.PARTIAL, "so far")
    signals: dict[str, bool | str] = {
        "is_empty": empty,
        "needs_replan": wish,
        **({"replan_reason": reason} if reason else {}),
    }
    told = Result(result.outcome, "why", {"found": 1}, errors=result.errors, signals=signals)
    trigger = trigger_of("s", StepState(ENDS[end].status, told), steps_left=steps_left)
    if wish:
        assert trigger == Trigger("intent_clarified" if reason else "new_information", "s", "why", {"found": 1})
    elif end not in GOOD:
        assert (trigger is not None and trigger.type == "step_failed") == steps_left
    else:
        assert (trigger is not None and trigger.type == "missing_data") == (empty and steps_left)
    for replans, begun, time_left in ((3, 0, True), (0, 10, True), (0, 0, False)):
        assert not may_replan(PlanSpec(), replans=replans, begun=begun, time_left=time_left)
    assert may_replan(PlanSpec(), replans=2, begun=9, time_left=True)


@requirement("S0-SA-2", "S0-TB-1")
@given(
    st.lists(st.sampled_from(["</step>", "<results>", "שלום ", "🙂", "plain ", "\x00", "\n"]), max_size=4),
    st.integers(1, 5),
    st.integers(1, 400),
)
def test_a_digest_fits_its_budget_and_no_text_breaks_out_of_it(parts: list[str], count: int, budget: int) -> None:
    text = "".join(parts) * 100
    standing = StepState("completed", Result(Outcome.COMPLETED, "s", text))
    brought = [StepResult(PlannedStep(f"s{number}", "A", "x"), standing) for number in range(count)]
    digest = digest_of(brought, budget)
    assert digest.text.count("<step ") == digest.text.count("</step>") == count
    marks = sum(len(line.encode()) + 1 for line in digest.text.split("\n") if line.startswith("[cut after "))
    frame = sum(len(f"{each.opening}\n\n</step>\n".encode()) for each in brought)
    assert len(digest.text.encode()) <= budget * 3 + frame + marks
    assert bool(digest.cut) == bool(marks)
