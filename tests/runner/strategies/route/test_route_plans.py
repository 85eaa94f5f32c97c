"""Plans that a route has made: actions as planners write them, what each brought, and the answer to the user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from db.clock import moment
from runner.llm.protocol import Request
from runner.strategies.plan.export import plan_of
from runner.strategies.plan.parse import NotAPlan, PlannedStep, read_plan
from runner.text import is_raw
from tests.runner.strategies.plan.planned import plan, roles, step, steps
from tests.runner.strategies.route.routed import coordinator, decide
from tests.support.models import Turn, fail, say, shared
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

TWO = [decide("database", "gmail", plan=True)]
ONE = [decide("database", plan=True)]


async def planned(service: Bench) -> dict[str, Any]:
    """The newest plan, as programs read it."""
    row = service.sql("select execution_id from plans order by created_at desc limit 1")[0]
    shown = await plan_of(service.dispatcher.services.database.reads, row["execution_id"])
    assert shown is not None
    return shown


def first(request: Request) -> str:
    return request.messages[0].text


ACTIONS = [
    {
        "id": "find",
        "agent": "database",
        "intent": "find_contact",
        "userInstruction": "find Ron",
        "executionPayload": "find the contact named Ron",
        "notes": "there may be two",
    },
    {
        "id": "mail",
        "agent": "gmail",
        "intent": "send_mail",
        "userInstruction": "tell him that I am late",
        "executionPayload": "send a mail to Ron: I am late",
        "dependsOn": ["find"],
    },
    {"id": "note", "agent": "database", "executionPayload": "note the call", "dependsOn": ["mail"]},
    {"id": "list", "agent": "database", "executionPayload": "list the tasks"},
]


@requirement("S4-PL-1", "S4-EX-1", "S4-EX-2", "S4-EX-3", "S4-EX-4", "S4-SU-3", "X-13")
async def test_actions_are_stored_as_planned_and_each_tells_what_became_of_it(tmp_path: Path) -> None:
    scripts = {
        "Classifier": TWO,
        "Planner": [say(f"```json\n{json.dumps(ACTIONS)}\n```")],
        "database": lambda request: say("ron@example.com" if "Ron" in first(request) else "three tasks"),
        "gmail": [fail("invalid", "the mailbox is full", recoverable=False)],
        "Composer": [fail(recoverable=False)],
    }
    async with bench(tmp_path, coordinator(), scripts) as service:
        ended = await service.run("Coord", "find Ron and tell him that I am late", user="eve")
        assert ended.result is not None
        assert (ended.status, ended.result.outcome) == ("completed", "partial")
        assert ended.result.text == "Completed 2/4.\n\nron@example.com\n\nthree tasks"

        shown = await planned(service)
        fields = ("id", "agent", "intent", "user_instruction", "task", "depends_on", "notes")
        assert [tuple(each[name] for name in fields) for each in shown["steps"]] == [
            ("find", "database", "find_contact", "find Ron", "find the contact named Ron", [], "there may be two"),
            ("mail", "gmail", "send_mail", "tell him that I am late", "send a mail to Ron: I am late", ["find"], ""),
            ("note", "database", "perform_action", "note the call", "note the call", ["mail"], ""),
            ("list", "database", "perform_action", "list the tasks", "list the tasks", [], ""),
        ]
        found, mail, note, listed = shown["steps"]
        assert [each["status"] for each in shown["steps"]] == ["completed", "failed", "blocked", "completed"]
        assert [each["success"] for each in shown["steps"]] == [True, False, False, True]
        assert (found["response"], mail["response"], note["response"]) == ("ron@example.com", None, None)
        assert "the mailbox is full" in mail["error"]
        assert "`mail`" in note["error"]
        assert found["error"] is listed["error"] is None
        assert (note["duration_ms"], note["started_at"]) == (0, None)
        assert moment(found["started_at"]) <= moment(mail["started_at"]) <= moment(listed["started_at"])
        row = service.sql("select started_at, finished_at from executions where step_id = 'mail'")[0]
        took = (moment(row["finished_at"]) - moment(row["started_at"])).total_seconds()
        assert mail["duration_ms"] == round(took * 1000)
        payload = first(service.model.of("gmail")[0])
        assert payload.startswith("send a mail to Ron: I am late")
        assert "find Ron and tell him" not in payload


@requirement("S4-PL-2", "S4-PL-4", "S4-PL-6", "S4-PL-9", "S4-SU-1")
async def test_one_agent_with_several_verbs_has_an_action_for_each_and_nothing_supported_is_nothing(tmp_path: Path) -> None:
    both = [step("wipe", "database", "delete all tasks"), step("add", "database", "add banana", dependsOn=["wipe"])]
    scripts = {
        "Classifier": shared(*ONE, *TWO),
        "Planner": shared(plan(*both), say("[]")),
        "database": lambda request: say("deleted" if first(request) == "delete all tasks" else "added"),
    }
    async with bench(tmp_path, coordinator(), scripts) as service:
        ended = await service.run("Coord", "delete all tasks and add banana to the list", user="eve")
        assert ended.result is not None
        assert ended.result.text == "deleted\n\nadded"
        assert steps(service) == {"wipe": "completed", "add": "completed"}
        assert roles(service) == ["root", "classifier", "plan", "planner", "step", "step"]
        assert "deleted" in first(service.model.of("database")[1])

        nothing = await service.run("Coord", "make me a sandwich and toast it", user="eve")
        assert nothing.result is not None
        assert (nothing.status, nothing.result.outcome) == ("completed", "completed")
        assert nothing.result.text.startswith("There is nothing I can do about this.")
        assert service.statuses()["database"] == ["completed", "completed"]

        prompt = " ".join(service.model.of("Planner")[0].system.split())
        for rule in (
            "Use the fewest steps that do it. Different verbs or goals are separate steps, also for the same agent.",
            "Give `dependsOn` where a step needs the result of another.",
            "If the request is not supported by any agent, or too unclear to act on, give no steps either.",
            "Write tasks in the language of the user.",
        ):
            assert rule in prompt
        assert 'name="database"' in prompt
        assert 'name="gmail"' not in prompt


@requirement("S4-PL-5", "S4-PL-3", "X-12")
async def test_a_plan_is_asked_for_once_more_when_it_cannot_be_read_and_is_empty_then(tmp_path: Path) -> None:
    readable = plan(step("a", "database", "list"), step("b", "gmail", "send"))
    scripts = {
        "Classifier": shared(*TWO, *TWO, *ONE),
        "database": [say("listed")],
        "gmail": [say("sent")],
        "Composer": [say("Both done.")],
    }
    async with bench(tmp_path, coordinator(), scripts) as service:
        for drafts, text in (
            ([say("I would list, then send."), readable], "Both done."),
            ([say("I would list, then send."), say("{}")], "There is nothing I can do about this."),
            ([say("no plan"), say("[1, 2]")], "listed"),
        ):
            service.model.scripts["Planner"] = drafts
            before = len(service.model.of("Planner"))
            ended = await service.run("Coord", "list and send", user="eve")
            assert ended.result is not None
            assert (ended.result.outcome, ended.result.text[: len(text)]) == ("completed", text)
            assert len(service.model.of("Planner")) == before + 2
        assert service.model.of("database")[-1].messages[0].text == "list and send"
        assert service.statuses()["Planner"] == ["completed", "failed", "failed"]


@requirement("S4-PL-8", "S4-PL-1", "S4-PL-5", "X-13")
def test_incomplete_actions_are_completed_and_those_without_anything_to_do_dropped() -> None:
    actions: list[dict[str, Any]] = [
        {"agent": "gmail", "executionPayload": " send it "},
        {"id": "two words", "agent": "gmail", "executionPayload": {"to": "ron"}, "intent": "", "userInstruction": ""},
        {"id": "empty", "agent": "gmail", "executionPayload": "", "dependsOn": ["two words"]},
        {"id": "none", "agent": "gmail", "execution_payload": {}},
        {"id": 7, "agent": "gmail", "task": "a", "dependsOn": ["two words", "two words", 7], "notes": None},
    ]
    expected = (
        PlannedStep("action_1", "gmail", "send it", (), "perform_action", "send it"),
        PlannedStep("action_2", "gmail", '{"to":"ron"}', (), "perform_action", '{"to":"ron"}'),
        PlannedStep("7", "gmail", "a", ("action_2", "7"), "perform_action", "a"),
    )
    for answer in (actions, {"steps": actions}, {"actions": actions}):
        blueprint = read_plan(json.dumps(answer))
        assert (blueprint.steps, blueprint.dropped) == (expected, 2)
    for unreadable in ("", "42", '{"steps": "all"}', '["gmail"]', "[" * 50_000):
        with pytest.raises(NotAPlan):
            read_plan(unreadable)


@requirement("S4-EX-5", "S4-PL-8", "S4-SU-1")
async def test_an_action_for_an_agent_unknown_or_not_chosen_fails_alone(tmp_path: Path) -> None:
    wrong = plan(
        step("a", "fax", "send a fax"), step("b", "database", "list"), step("c", "calendar", "look"), step("d", "", "what?")
    )
    later = plan(step("a", "fax", "send a fax"), step("e", "fax", "send more", dependsOn=["a"]))
    scripts = {
        "Classifier": lambda _: decide("database", plan=True),
        "Planner": [wrong],
        "database": [say("listed")],
    }
    async with bench(tmp_path, coordinator(), scripts) as service:
        ended = await service.run("Coord", "fax it, then list", user="eve")
        assert ended.result is not None
        assert (ended.result.outcome, [each.type for each in ended.result.errors]) == ("partial", ["unknown_agent"] * 3)
        assert "there is no agent `fax`" in ended.result.errors[0].message
        assert steps(service) == {"a": "blocked", "b": "completed", "c": "blocked", "d": "blocked"}
        assert not service.model.of("calendar")
        [first_draft, repaired] = service.model.of("Planner")
        assert '<error step="a">there is no agent `fax`</error>' in first(repaired)
        assert first(repaired).startswith(first(first_draft))

        service.model.scripts["Planner"] = [later]
        none = await service.run("Coord", "fax it, then list", user="eve")
        assert none.result is not None
        assert (none.status, none.result.text) == ("failed", "there is no agent `fax`")


@requirement("S4-EX-6")
async def test_an_action_sees_the_latest_dozen_outcomes_before_it(tmp_path: Path) -> None:
    actions = [step(f"s{number:02}", "database", f"part {number}") for number in range(1, 21)]

    def work(request: Request) -> Turn:
        number = first(request).split("\n")[0].removeprefix("part ")
        return fail("invalid", f"broken {number}", recoverable=False) if number == "15" else say(f"result {number}")

    more = "  Ours: {strategy: plan, plan: {max_steps: 20, compose: concat, on_step_failure: continue}}\n"
    scripts = {"Classifier": ONE, "Planner": [plan(*actions)], "database": work}
    async with bench(tmp_path, coordinator("route: {planner: Ours}", more), scripts) as service:
        ended = await service.run("Coord", "do all of it", user="eve")
        assert ended.result is not None
        assert ended.result.outcome == "partial"
        last = first(service.model.of("database")[-1])
        assert [number for number in range(1, 21) if f'<step id="s{number:02}"' in last] == list(range(8, 20))
        assert "broken 15" in last
        assert "result 19" in last


@requirement("S4-SU-3", "S4-SU-2")
async def test_without_a_usable_summary_the_user_reads_a_count_in_their_language(tmp_path: Path) -> None:
    both = plan(step("a", "database", "list"), step("b", "gmail", "send"), step("c", "gmail", "more", dependsOn=["b"]))
    scripts = {
        "Classifier": lambda _: decide("database", "gmail", plan=True),
        "Planner": [both],
        "database": [say('{"rows": [1, 2]}')],
        "gmail": [fail("invalid", "no", recoverable=False)],
        "Composer": shared(fail(recoverable=False), say(""), say('{"done": true}'), fail(recoverable=False)),
    }
    async with bench(tmp_path, coordinator(), scripts) as service:
        for text, count in (("send it", "Completed 1/3."), ("שלח את זה", "הושלמו 1/3.")) * 2:
            ended = await service.run("Coord", text, user="eve")
            assert ended.result is not None
            assert ended.result.text == count
            assert "the composer failed: the answer was assembled" in str(ended.result.metadata["warnings"])
        composer = first(service.model.of("Composer")[0])
        assert all(f'status="{status}"' in composer for status in ("completed", "failed", "blocked"))


@requirement("S4-LX-2")
@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ('{"a": 1}', True),
        (' [{"a": 1}]\n', True),
        ("[]", True),
        ('```json\n["a"]\n```', True),
        ('{"a": 1}\nDone.', True),
        ('Done: {"a": 1}', False),
        ("[1] says so, [2] does not", False),
        ("[done] I have sent it", False),
        ("```python\nx = [1]\n```", False),
        ("{name} is what you call it", False),
        ("", False),
    ],
)
def test_data_is_told_from_words(text: str, raw: bool) -> None:
    assert is_raw(text) is raw


@requirement("S4-LX-2")
async def test_a_user_is_never_shown_raw_data(tmp_path: Path) -> None:
    data = '{"events": [{"summary": "dentist"}]}'
    words = "You have one event: dentist."
    scripts = {
        "Classifier": lambda _: decide("database"),
        "database": [say(f"```json\n{data}\n```")],
        "Composer": shared(say(words), say(data), fail(recoverable=False), say(words)),
    }
    async with bench(tmp_path, coordinator(), scripts) as service:
        told = [(await service.run("Coord", "what is on?", user="eve")).result for _ in range(3)]
        assert [each.text for each in told if each is not None] == [words, "Completed 1/1.", "Completed 1/1."]
        assert told[1] is not None
        assert "`database`" in told[1].metadata["warnings"][0]
        prompt = service.model.of("Composer")[0]
        assert "show no raw data structures" in prompt.system
        assert data in first(prompt)

        service.model.scripts |= {"Classifier": ONE, "Planner": [plan(step("a", "database", "list"))]}
        joined = (await service.run("Coord", "what is on?", user="eve")).result
        assert joined is not None
        assert joined.text == words
